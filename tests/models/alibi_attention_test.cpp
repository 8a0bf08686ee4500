// Chunks of queries against all queries at once; the values themselves are held against
// transformers' by golden_test.cpp.
#include "models/alibi_attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "models/forward_ops.h"

namespace gptqb::test {
namespace {

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

TEST(AlibiAttention, ChunksOfQueriesGiveWhatAllAtOnceDo) {
  for (const int64_t heads : {1, 5, 8})
    for (const int64_t seqlen : {1, 7, 64, 131}) {
      AlibiAttention attention(heads, at::kFloat, at::kCPU);
      const auto fused = random({3, seqlen, 3 * heads * 8}, 1);
      const auto expected = attention.mix_heads(fused);
      for (const int64_t queries : {1, 3, 64, 200})
        EXPECT_TRUE(at::allclose(attention.mix_queries(fused, queries), expected, 1e-4, 1e-5))
            << heads << " heads, " << seqlen << " tokens by " << queries;
    }
}

// The scores of 16 bits are the same numbers either way, so only the last bits of sums differ.
TEST(AlibiAttention, ChunksRoundWhereAllAtOnceDo) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    AlibiAttention attention(4, dtype, at::kCPU);
    const auto fused = random({2, 96, 3 * 4 * 16}, 2).to(dtype);
    const auto expected = attention.mix_heads(fused).to(at::kFloat);
    const auto chunked = attention.mix_queries(fused, 40).to(at::kFloat);
    const double step = dtype == at::kHalf ? 1.0 / 1024 : 1.0 / 128;
    EXPECT_TRUE(at::allclose(chunked, expected, 2 * step, 1e-4));
    EXPECT_GT(chunked.eq(expected).to(at::kFloat).mean().item<double>(), 0.95);
  }
}

TEST(AlibiAttention, OtherLengthsCanFollow) {
  AlibiAttention attention(2, at::kFloat, at::kCPU);
  for (const int64_t seqlen : {9, 30, 9}) {
    const auto fused = random({1, seqlen, 3 * 2 * 4}, 3);
    AlibiAttention fresh(2, at::kFloat, at::kCPU);
    EXPECT_TRUE(at::equal(attention.mix(fused), fresh.mix(fused))) << seqlen;
  }
}

TEST(CausalSoftmax, SeesTheColumnsUpToItsOwn) {
  auto scores = at::zeros({2, 3, 5});
  scores.select(2, 4).fill_(7);
  causal_softmax(scores, 2);
  const auto expected =
      at::tensor({1 / 3., 1 / 3., 1 / 3., 0., 0., .25, .25, .25, .25, 0.}, at::kFloat).view({2, 5});
  for (int64_t matrix = 0; matrix < 2; ++matrix) {
    EXPECT_TRUE(at::allclose(scores[matrix].narrow(0, 0, 2), expected));
    EXPECT_NEAR(scores[matrix][2][4].item<double>(), std::exp(7.) / (std::exp(7.) + 4), 1e-6);
  }
}

}  // namespace
}  // namespace gptqb::test
