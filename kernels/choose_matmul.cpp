#include <array>

#include "common/error.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"

namespace gptqb::kernels {
namespace {

// The first row whose kernel does not refuse the problem is chosen; crossovers are measured.
struct Preference {
  std::string_view kernel;
  int64_t m_to;  // most rows of activations for which it is the fastest
  std::string_view reason;
};

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

constexpr std::array kPreferences = {
    Preference{"cuda_strips", 16, "few activations: reading the weights bounds it"},
    Preference{"cuda_wide", kAny, "warpgroup products on weights made in registers"},
    Preference{"cuda_tiles", 32, "few activations: reading the weights bounds it"},
    Preference{"cuda_plain", kAny, "no faster CUDA kernel runs it"},
    Preference{"cpu_rows", kAny, "the fastest CPU kernel at every M"},
    Preference{"cpu_plain", kAny, "no faster CPU kernel runs it"},
};

std::string problem_text(const MatmulProblem& problem) {
  return "M = " + std::to_string(problem.m) + ", " + std::to_string(problem.k) + " x " +
         std::to_string(problem.n) + ", " + std::to_string(problem.bits) + " bits";
}

}  // namespace

MatmulChoice choose_matmul(const MatmulProblem& problem, const MatmulDevice& device,
                           const std::string& wanted) {
  if (!wanted.empty()) {
    const std::string& name = matmul_kernels().at(wanted).name;
    const std::string reason = matmul_refusal(name, problem, device);
    if (!reason.empty()) throw Error("kernel " + name, reason);
    return {name, "asked for"};
  }
  const std::string general = matmul_refusal(problem);
  if (!general.empty()) throw Error("kernel", general);
  std::string refusals;
  for (const Preference& row : kPreferences) {
    if (problem.m > row.m_to) continue;
    const std::string reason = matmul_refusal(row.kernel, problem, device);
    if (reason.empty())
      return {std::string(row.kernel), problem_text(problem) + ": " + std::string(row.reason)};
    refusals += (refusals.empty() ? "" : "; ") + std::string(row.kernel) + ": " + reason;
  }
  throw Error("kernel",
              "expected a kernel for " + problem_text(problem) + ", got none (" + refusals + ")");
}

}  // namespace gptqb::kernels
