// Recorded work gives what the work itself gives, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "methods/graph_replay.h"
#include "methods/published_sums.h"

namespace gptqb {
namespace {

TEST(GraphReplayCuda, RecordedWorkGivesTheSameBits) {
  at::manual_seed(1);
  const auto options = at::TensorOptions(at::kHalf).device(at::kCUDA);
  GraphReplay replay;
  // A second recording takes the place of the first.
  for (const int64_t features : {64, 200}) {
    SCOPED_TRACE(features);
    const auto weight = at::randn({96, features}, options);
    const GraphReplay::Work work = [&](const at::Tensor& x) {
      const auto y = at::linear(x, weight);
      return std::vector{y, at::silu(y).mul_(2)};
    };
    replay.record(work, at::randn({1, 33, features}, options));
    for (int i = 0; i < 3; ++i) {
      const auto x = at::randn({1, 33, features}, options);
      const auto expected = work(x);
      const auto& got = replay.run(x);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(at::equal(got[k], expected[k]));
    }
  }
}

TEST(PublishedSumsCuda, RoundAsTheTensorOperationsDo) {
  at::manual_seed(2);
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    for (const int64_t features : {8, 20, 72, 576}) {
      SCOPED_TRACE(std::to_string(features) + " " + at::toString(dtype));
      const auto x = at::randn({37, features}, at::TensorOptions(dtype).device(at::kCUDA));
      const double factor = std::sqrt(2.0 / 7);
      const auto inputs = published_inputs(x, factor);
      EXPECT_TRUE(at::equal(inputs, x.t().to(at::kFloat).mul(factor)));
      EXPECT_EQ(inputs.strides(), x.t().to(at::kFloat).strides());

      const auto product = at::matmul(inputs, inputs.t());
      auto sum = at::randn({features, features}, product.options());
      const auto expected = sum.mul(6.0 / 7).add(product);
      add_published_product(sum, 6.0 / 7, product);
      EXPECT_TRUE(at::equal(sum, expected));
    }
}

}  // namespace
}  // namespace gptqb
