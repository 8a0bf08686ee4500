// The fast CPU kernel; how it computes is said in matmul_rows.h.
#include <algorithm>
#include <memory>
#include <new>

#include "kernels/impl/cpu_level.h"
#include "kernels/impl/matmul_rows.h"
#include "kernels/impl/parallel.h"
#include "kernels/matmul_limits.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cpu_rows";

struct Release {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

class RowsCpu : public LimitedKernel {
 public:
  RowsCpu() : LimitedKernel(kName) {}

  void launch(const MatmulArguments& arguments, void* /*stream*/) const override {
    multiply_rows(arguments, row_bodies().front());
  }
};

}  // namespace

const std::vector<RowBody>& row_bodies() {
  static const std::vector<RowBody> bodies = [] {
    std::vector<RowBody> found;
#if GPTQB_X86_LEVELS
    const CpuLevel level = cpu_level();
    if (level == CpuLevel::kAvx512 && __builtin_cpu_supports("avx512vnni"))
      found.push_back(row_body_vnni());
    if (level != CpuLevel::kBaseline) found.push_back(row_body_avx2());
#endif
    found.push_back(row_body_portable());
    return found;
  }();
  return bodies;
}

void multiply_rows(const MatmulArguments& arguments, const RowBody& body) {
  const PackedShape& shape = arguments.weight.shape;
  // Tokens of a pass: what stays in half of a small second-level cache while weights stream by.
  constexpr int64_t kPassBytes = 256 * 1024;
  const int64_t fitting = kPassBytes / (2 * shape.packed_columns) / 4 * 4;
  const int64_t tokens = std::min(arguments.m, std::max<int64_t>(fitting, 4));
  FixedInputs inputs;
  inputs.bits = shape.bits;
  inputs.tokens = tokens;
  inputs.columns = shape.packed_columns;
  inputs.chunk = std::min<int64_t>(shape.scale_span, 128);
  const std::unique_ptr<std::byte, Release> memory(static_cast<std::byte*>(
      ::operator new (static_cast<size_t>(inputs.bytes()), std::align_val_t{64})));
  inputs.memory = memory.get();
  for (; inputs.first < arguments.m; inputs.first += tokens) {
    inputs.tokens = std::min(tokens, arguments.m - inputs.first);
    parallel_parts(inputs.tokens, 4, [&](int64_t token, int64_t end) {
      for (; token < end; token += inputs.group(token)) body.fix(arguments, inputs, token);
    });
    const int64_t strips = shape.packed_rows / kRowStrip;
    parallel_parts(strips, part_length(strips, 8), [&](int64_t first, int64_t last) {
      body.multiply(arguments, inputs, first, last);
    });
  }
}

std::unique_ptr<MatmulKernel> make_cpu_rows() { return std::make_unique<RowsCpu>(); }

}  // namespace gptqb::kernels
