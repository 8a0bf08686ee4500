// What OPT's first MLP layer stands on: a product that applies bias and ReLU before it writes
// rounds where the two operations do. Another kernel may sum in another order, so that a sum near a
// rounding boundary can round to the other side.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <tuple>

namespace gptqb {
namespace {

TEST(ReluProductCuda, RoundsWhereProductAndReluDo) {
  at::manual_seed(1);
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    for (const auto& [tokens, in, out] :
         {std::tuple{4096, 768, 3072}, std::tuple{2048, 5120, 20480}, std::tuple{7, 64, 48}}) {
      const auto options = at::TensorOptions().dtype(dtype).device(at::kCUDA);
      const auto x = at::randn({tokens, in}, options);
      const auto weight = at::randn({out, in}, options) * 0.02;
      const auto bias = at::randn({out}, options);
      const auto expected = at::linear(x, weight, bias).relu_();
      const auto fused = at::_addmm_activation(bias, x, weight.t());
      const double step = dtype == at::kHalf ? 1.0 / 1024 : 1.0 / 128;
      EXPECT_TRUE(at::allclose(fused, expected, step, 1e-4));
      const double equal = fused.eq(expected).to(at::kFloat).mean().item<double>();
      EXPECT_GT(equal, 0.99);
      std::printf("%d x %d x %d: equal in %.5f of all values\n", tokens, in, out, equal);
    }
}

}  // namespace
}  // namespace gptqb
