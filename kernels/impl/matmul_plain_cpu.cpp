// The product as it is defined, element by element.
#include "kernels/half_bits.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/tile_position.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cpu_plain";

double weight_at(const PackedView& weight, int64_t row, int64_t column) {
  const PackedShape& shape = weight.shape;
  const int64_t at = tiles_scale_at(shape, row, column);
  const int64_t zero = shape.symmetric ? int64_t{1} << (shape.bits - 1) : weight.zeros[at];
  return float_of_half(weight.scales[at]) *
         static_cast<double>(tiles_code(shape, weight.codes, row, column) - zero);
}

class PlainCpu : public LimitedKernel {
 public:
  PlainCpu() : LimitedKernel(kName) {}

  void launch(const MatmulArguments& arguments, void* /*stream*/) const override {
    const PackedView& weight = arguments.weight;
    const PackedShape& shape = weight.shape;
    const auto* const x = static_cast<const uint16_t*>(arguments.x);
    const auto* const bias = static_cast<const uint16_t*>(arguments.bias);
    auto* const y = static_cast<uint16_t*>(arguments.y);
    std::vector<double> sums(static_cast<size_t>(arguments.m));
    for (int64_t row = 0; row < shape.rows; ++row) {
      const float first = bias == nullptr ? 0.F : float_of(arguments.type, bias[row]);
      std::fill(sums.begin(), sums.end(), first);
      for (int64_t column = 0; column < shape.packed_columns; ++column) {
        const int64_t input = shape.ordered ? weight.input_order[column] : column;
        if (input < 0 || input >= shape.columns) continue;
        const double value = weight_at(weight, row, column);
        for (int64_t token = 0; token < arguments.m; ++token)
          sums[static_cast<size_t>(token)] +=
              value * float_of(arguments.type, x[token * shape.columns + input]);
      }
      for (int64_t token = 0; token < arguments.m; ++token)
        y[token * shape.rows + row] =
            bits_of(arguments.type, static_cast<float>(sums[static_cast<size_t>(token)]));
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_cpu_plain() { return std::make_unique<PlainCpu>(); }

}  // namespace gptqb::kernels
