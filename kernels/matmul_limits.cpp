#include "kernels/matmul_limits.h"

#include <array>

#include "common/error.h"
#include "common/text.h"
#include "kernels/matmul_tiles.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();

// Named in the order of kernels.def.
constexpr std::array kLimits = {
    MatmulLimits{.kernel = "cpu_plain", .layout = "tiles"},
    MatmulLimits{.kernel = "cpu_rows", .layout = "rows"},
    MatmulLimits{.kernel = "cuda_plain",
                 .layout = "tiles",
                 .cuda = true,
                 .capability_from = 80,
                 .capability_to = kNewest},
    MatmulLimits{.kernel = "cuda_strips",
                 .layout = "tiles",
                 .cuda = true,
                 .capability_from = 90,
                 .capability_to = 90,
                 .m_to = 16},
    MatmulLimits{.kernel = "cuda_tiles",
                 .layout = "tiles",
                 .cuda = true,
                 .capability_from = 80,
                 .capability_to = kNewest,
                 .m_to = 32,
                 .more = tiles_memory_refusal},
    MatmulLimits{.kernel = "cuda_wide",
                 .layout = "tiles",
                 .cuda = true,
                 .capability_from = 90,
                 .capability_to = 90},
};

std::string capability_text(int64_t capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string device_refusal(const MatmulLimits& limits, const MatmulDevice& device) {
  if (limits.cuda != device.cuda)
    return limits.cuda ? "expected a CUDA device, got the CPU"
                       : "expected the CPU, got a CUDA device";
  if (!limits.cuda) return "";
  if (device.capability >= limits.capability_from && device.capability <= limits.capability_to)
    return "";
  std::string expected = capability_text(limits.capability_from);
  if (limits.capability_to == kNewest)
    expected += " or newer";
  else if (limits.capability_to != limits.capability_from)
    expected += " to " + capability_text(limits.capability_to);
  return "expected a device of compute capability " + expected + ", got " +
         capability_text(device.capability);
}

}  // namespace

const MatmulLimits& matmul_limits(std::string_view kernel) {
  std::vector<std::string> names;
  for (const MatmulLimits& limits : kLimits) {
    if (limits.kernel == kernel) return limits;
    names.emplace_back(limits.kernel);
  }
  throw Error("kernel", unknown_name(kernel, names));
}

std::string matmul_refusal(const MatmulProblem& problem) {
  if (problem.m < 1 || problem.n < 1 || problem.k < 1)
    return "expected m, n and k of 1 or more, got " + std::to_string(problem.m) + ", " +
           std::to_string(problem.n) + ", " + std::to_string(problem.k);
  if (problem.bits == kTernaryBits)
    return "expected codes of 2, 3, 4 or 8 bits, got ternary ones: the three levels of a group are "
           "no scale and zero point, such weights are dequantized and multiplied as 16-bit ones";
  if (problem.bits == 16)
    return "expected codes of 2, 3, 4 or 8 bits, got 16-bit weights, which cuBLAS multiplies";
  if (problem.bits != 2 && problem.bits != 3 && problem.bits != 4 && problem.bits != 8)
    return "expected codes of 2, 3, 4 or 8 bits, got " + std::to_string(problem.bits);
  const bool one_group = problem.group_size == -1 || problem.group_size >= problem.k;
  if (!one_group && (problem.group_size < 16 || problem.group_size % 16 != 0))
    return "expected groups of a multiple of 16 columns, or -1 for one a row, got " +
           std::to_string(problem.group_size);
  return "";
}

std::string matmul_refusal(std::string_view kernel, const MatmulProblem& problem,
                           const MatmulDevice& device) {
  const MatmulLimits& limits = matmul_limits(kernel);
  std::string reason = matmul_refusal(problem);
  if (reason.empty()) reason = device_refusal(limits, device);
  if (reason.empty() && problem.m > limits.m_to)
    reason = "expected at most " + std::to_string(limits.m_to) + " rows of activations, got " +
             std::to_string(problem.m);
  if (reason.empty() && limits.more != nullptr) reason = limits.more(problem, device);
  return reason;
}

}  // namespace gptqb::kernels
