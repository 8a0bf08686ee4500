// What architectures tell the memory plan of themselves, against what they allocate.
#include <gtest/gtest.h>

#include "models/causal_lm.h"
#include "models/forward_ops.h"
#include "models/fused_alibi.h"
#include "tests/support/peak_bytes.h"

namespace gptqb::test {
namespace {

const SyntheticModel kBloom{
    .like = "", .architecture = "bloom", .hidden_size = 64, .heads = 2, .layers = 1};

// In float32 on the CPU, where GELU is tensor operations: what it works on, and what it takes.
TEST(PlannedSizes, BloomsActivationCopiesAreThoseOfItsGelu) {
  auto inner = at::randn({64, 1024});
  const auto bytes = static_cast<int64_t>(inner.nbytes());
  const int64_t beside = peak_bytes_of([&] { bloom_gelu(inner); });
  EXPECT_EQ(open_synthetic(kBloom, {})->sizes().activation_copies,
            1 + (beside + bytes / 2) / bytes);
}

// Queries and keys of two heads of 32, each with the 32 columns that BLOOM gives them.
TEST(PlannedSizes, FusedAttentionIsPlannedUnlessTheReferenceIsAskedFor) {
  EXPECT_EQ(open_synthetic(kBloom, {})->sizes().fused_attention_features, 2 * 2 * (32 + 32));
  EXPECT_EQ(open_synthetic(kBloom, {.reference_forward = true})->sizes().fused_attention_features,
            0);
}

// Queries and keys with their columns, in 16 bits; beside them the kernel's own and the result.
TEST(PlannedSizes, FusedAttentionHoldsWhatItSays) {
  const auto fused = at::randn({2, 512, 3 * 64}).to(at::kHalf);
  FusedAlibi attention(2, at::kHalf, at::kCPU);
  attention.mix(fused);  // biases are made once
  const int64_t longer = 2 * 512 * FusedAlibi::features_held(2, 32) * 2;
  const int64_t peak = peak_bytes_of([&] { attention.mix(fused); });
  EXPECT_GE(peak, longer + 2 * 512 * 64 * 2);
}

// On the CPU nothing is fused, whatever was asked for.
TEST(PlannedSizes, AModelNamesTheAttentionThatItComputes) {
  EXPECT_EQ(open_synthetic(kBloom, {.dtype = "float16"})->forward_policies().at("attention"),
            "scores in the model's dtype, as transformers");
  const SyntheticModel opt{
      .like = "", .architecture = "opt", .hidden_size = 64, .heads = 2, .layers = 1};
  EXPECT_TRUE(open_synthetic(opt, {})->forward_policies().empty());
}

}  // namespace
}  // namespace gptqb::test
