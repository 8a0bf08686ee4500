// ALiBi's biases as columns, and the attention that has them there. On the CPU ATen has a fused
// kernel too, so that all but the GPU's own is held against float64 here.
#include "models/fused_alibi.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/alibi_attention.h"
#include "tests/support/alibi_oracle.h"

namespace gptqb::test {
namespace {

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

TEST(AlibiSlopes, AreThePublishedOnes) {
  for (const int64_t heads : {1, 2, 5, 8, 16, 32, 112}) {
    const auto slopes = alibi_slopes(heads, at::kCPU).to(at::kDouble);
    const auto published = published_slopes(heads);
    ASSERT_EQ(slopes.numel(), heads);
    for (int64_t head = 0; head < heads; ++head)
      EXPECT_NEAR(slopes[head].item<double>() / published[static_cast<size_t>(head)], 1, 1e-6)
          << head << " of " << heads;
  }
}

// At the last position that there is room for, too; every column is a number of the dtype.
TEST(AlibiColumns, ProductsAreSlopeTimesPosition) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat})
    for (const int64_t heads : {8, 32, 112}) {
      const double scale = 1 / std::sqrt(128.);
      const auto slopes = alibi_slopes(heads, at::kCPU);
      const int64_t seqlen = AlibiColumns::kMaxPositions;
      const auto columns = alibi_columns(slopes, seqlen, scale, dtype, 24);
      EXPECT_EQ(columns.queries.sizes(), at::IntArrayRef({heads, 24}));
      EXPECT_EQ(columns.keys.sizes(), at::IntArrayRef({seqlen, 24}));
      EXPECT_EQ(columns.queries.scalar_type(), dtype);
      EXPECT_EQ(columns.queries.narrow(1, 8, 16).count_nonzero().item<int64_t>(), 0);
      const auto biases =
          at::matmul(columns.queries.to(at::kDouble), columns.keys.to(at::kDouble).t()) * scale;
      const auto positions = at::arange(seqlen, at::kDouble);
      const auto exact = slopes.to(at::kDouble).unsqueeze(1) * positions;
      EXPECT_TRUE(
          ((biases - exact).abs() <= 0x1p-22 * exact + 0x1p-25 * positions).all().item<bool>())
          << heads << " heads in " << dtype;
    }
}

TEST(FusedAlibi, IsTheOracleInFloat32) {
  for (const int64_t heads : {1, 5, 8})
    for (const int64_t seqlen : {1, 7, 64, 131}) {
      FusedAlibi attention(heads, at::kFloat, at::kCPU);
      const auto fused = random({3, seqlen, 3 * heads * 16}, 1);
      const auto oracle = alibi_oracle(fused, heads);
      EXPECT_TRUE(at::allclose(attention.mix(fused).to(at::kDouble), oracle.mixed, 1e-4, 1e-5))
          << heads << " heads, " << seqlen << " tokens";
    }
}

TEST(FusedAlibi, KeepsScoresInFloat32WhereTensorsAreOfSixteenBits) {
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    for (const int64_t columns : {8, 64}) {
      FusedAlibi attention(5, dtype, at::kCPU, columns);
      for (const int64_t seqlen : {300, 70}) {  // another length may follow
        const auto fused = random({2, seqlen, 3 * 5 * 24}, 2).to(dtype);
        const auto oracle = alibi_oracle(fused, 5);
        const auto apart = (attention.mix(fused).to(at::kDouble) - oracle.mixed).abs();
        EXPECT_TRUE((apart <= fused_bound(oracle, fused)).all().item<bool>())
            << dtype << ", " << seqlen
            << " tokens: " << (apart / fused_bound(oracle, fused)).max().item<double>()
            << " of the bound";
        // The form that rounds scores is within its own bound, and not within this one.
        AlibiAttention eager(5, dtype, at::kCPU);
        const auto rounded = (eager.mix(fused).to(at::kDouble) - oracle.mixed).abs();
        EXPECT_TRUE((rounded <= eager_bound(oracle, fused)).all().item<bool>());
        EXPECT_GT((rounded / fused_bound(oracle, fused)).max().item<double>(), 1);
      }
    }
}

TEST(FusedAlibi, TakesWhatFusedKernelsTake) {
  EXPECT_TRUE(FusedAlibi::takes(at::kHalf, 128, 2048));
  EXPECT_TRUE(FusedAlibi::takes(at::kBFloat16, 64, 65536));
  EXPECT_FALSE(FusedAlibi::takes(at::kFloat, 128, 2048));
  EXPECT_FALSE(FusedAlibi::takes(at::kHalf, 100, 2048));
  EXPECT_FALSE(FusedAlibi::takes(at::kHalf, 256, 2048));
  EXPECT_FALSE(FusedAlibi::takes(at::kHalf, 128, 65537));
}

}  // namespace
}  // namespace gptqb::test
