// The fused operations of the forward pass against the tensor operations that they stand for, on
// the same GPU: the same bits, whatever the shape.
#include <gtest/gtest.h>

#include "models/forward_ops.h"

namespace gptqb {
namespace {

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions().dtype(dtype).device(at::kCUDA);
}

// Every number that 16 bits hold, NaNs and infinities too.
at::Tensor all_numbers(at::ScalarType dtype) {
  return at::arange(-32768, 32768, at::kInt).to(at::kShort).view(dtype).cuda();
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto both_nan = a.isnan().logical_and(b.isnan());
  return (a.view(at::kShort).eq(b.view(at::kShort))).logical_or(both_nan).all().item<bool>();
}

class ForwardOpsCuda : public testing::TestWithParam<at::ScalarType> {};

TEST_P(ForwardOpsCuda, SiluMultiplyEqualsTensorOperationsForEveryNumber) {
  const auto gate = all_numbers(GetParam());
  for (const double factor : {1.0, -0.3, 1e-3, 700.0}) {
    const auto up = at::full_like(gate, factor);
    auto fused = gate.clone();
    fused = silu_multiply(fused, up);
    EXPECT_TRUE(same_bits(fused, at::silu(gate).mul(up))) << factor;
  }
}

TEST_P(ForwardOpsCuda, SiluMultiplyTakesSizesThatNoVectorFits) {
  at::manual_seed(1);
  for (const int64_t count : {1, 7, 8, 9, 2049}) {
    const auto gate = at::randn({count}, on_gpu(GetParam()));
    const auto up = at::randn({count}, on_gpu(GetParam()));
    auto fused = gate.clone();
    fused = silu_multiply(fused, up);
    EXPECT_TRUE(same_bits(fused, at::silu(gate).mul(up))) << count;
  }
}

// Widths of real models, of one warp a row and of sixteen, and some that leave a remainder.
TEST_P(ForwardOpsCuda, RmsNormEqualsTensorOperations) {
  at::manual_seed(2);
  for (const int64_t width :
       {8, 24, 32, 40, 100, 120, 128, 136, 576, 2048, 4096, 5120, 6656, 8160, 8168, 8192, 9216})
    for (const int64_t rows : {1, 15, 16, 77, 1000, 3001}) {
      const auto x = at::randn({rows, width}, on_gpu(GetParam())) * 5;
      const auto scale = at::randn({width}, on_gpu(GetParam()));
      const auto wide = x.to(at::kFloat);
      const auto inverse = wide.square().mean(-1, true).add_(1e-5).rsqrt_();
      const auto expected = wide.mul(inverse).to(GetParam()).mul(scale);
      EXPECT_TRUE(same_bits(rms_norm(x, scale, 1e-5), expected)) << rows << " x " << width;
    }
}

TEST_P(ForwardOpsCuda, RotatePairsEqualsTensorOperations) {
  at::manual_seed(3);
  for (const int64_t head_dim : {16, 64, 72, 128})
    for (const int64_t seqlen : {1, 5, 130}) {
      const int64_t half = head_dim / 2;
      const auto x = at::randn({2, seqlen, 3, head_dim}, on_gpu(GetParam()));
      const auto angles = at::randn({seqlen, half}, on_gpu(at::kFloat));
      const auto cosines = angles.cos().to(GetParam());
      const auto sines = angles.sin().to(GetParam());
      const auto c = cosines.unsqueeze(1), s = sines.unsqueeze(1);
      const auto low = x.narrow(3, 0, half), high = x.narrow(3, half, half);
      const auto expected = at::cat({(low * c).sub(high * s), (high * c).add(low * s)}, 3);
      EXPECT_TRUE(same_bits(rotate_pairs(x, cosines, sines), expected))
          << head_dim << ", " << seqlen << " tokens";
    }
}

INSTANTIATE_TEST_SUITE_P(All, ForwardOpsCuda, testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& dtype) {
                           return dtype.param == at::kHalf ? "float16" : "bfloat16";
                         });

}  // namespace
}  // namespace gptqb
