// BLOOM's attention by a fused kernel on a GPU: against float64, against the form that rounds
// scores as transformers does, and within a model.
#include <gtest/gtest.h>

#include "models/alibi_attention.h"
#include "models/causal_lm.h"
#include "models/fused_alibi.h"
#include "tests/support/alibi_oracle.h"

namespace gptqb {
namespace {

using test::alibi_oracle;
using test::eager_bound;
using test::fused_bound;

const at::Device kGpu(at::kCUDA, 0);

class FusedAlibiCuda : public testing::TestWithParam<at::ScalarType> {
 protected:
  static at::Tensor random(at::IntArrayRef shape) {
    return at::randn(shape, at::TensorOptions().dtype(GetParam()).device(kGpu));
  }
};

struct Shape {
  int64_t sequences, seqlen, heads, head_dim;
};

std::string text(const Shape& shape) {
  return std::to_string(shape.sequences) + " x " + std::to_string(shape.seqlen) + ", " +
         std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim);
}

// Lengths around the tiles of kernels, several sequences, heads that are no power of two, head
// sizes of all published models.
TEST_P(FusedAlibiCuda, IsTheOracleByHeads) {
  at::manual_seed(1);
  for (const Shape& shape :
       {Shape{1, 1, 8, 128}, Shape{3, 2, 5, 64}, Shape{2, 17, 8, 128}, Shape{3, 63, 16, 64},
        Shape{2, 64, 32, 80}, Shape{2, 129, 32, 128}, Shape{3, 333, 16, 96}, Shape{1, 1000, 7, 128},
        Shape{2, 2047, 8, 64}, Shape{2, 2048, 32, 128}, Shape{1, 2048, 112, 128}}) {
    FusedAlibi attention(shape.heads, GetParam(), kGpu);
    const auto fused = random({shape.sequences, shape.seqlen, 3 * shape.heads * shape.head_dim});
    const auto mixed = attention.mix(fused).to(at::kDouble);
    for (int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
      const auto alone = fused.narrow(0, sequence, 1);
      const auto oracle = alibi_oracle(alone, shape.heads);
      const auto apart = (mixed.narrow(0, sequence, 1) - oracle.mixed).abs();
      const auto of_bound = (apart / fused_bound(oracle, alone)).max().item<double>();
      EXPECT_LE(of_bound, 1) << text(shape) << ", sequence " << sequence;
    }
  }
}

// Both against float64, so that the sum of their bounds is what lies between them.
TEST_P(FusedAlibiCuda, LiesBesideTheRoundedFormByItsRoundingsAlone) {
  at::manual_seed(2);
  for (const Shape& shape : {Shape{2, 5, 8, 128}, Shape{2, 100, 8, 64}, Shape{1, 333, 32, 128}}) {
    FusedAlibi attention(shape.heads, GetParam(), kGpu);
    AlibiAttention eager(shape.heads, GetParam(), kGpu);
    const auto fused = random({shape.sequences, shape.seqlen, 3 * shape.heads * shape.head_dim});
    const auto oracle = alibi_oracle(fused, shape.heads);
    const auto apart =
        (attention.mix(fused).to(at::kDouble) - eager.mix(fused).to(at::kDouble)).abs();
    const auto bound = eager_bound(oracle, fused) + fused_bound(oracle, fused);
    EXPECT_LE((apart / bound).max().item<double>(), 1) << text(shape);
  }
}

TEST_P(FusedAlibiCuda, GivesTheSameBitsTwice) {
  at::manual_seed(3);
  FusedAlibi attention(32, GetParam(), kGpu);
  const auto fused = random({3, 700, 3 * 32 * 128});
  EXPECT_TRUE(at::equal(attention.mix(fused), attention.mix(fused)));
}

// A kernel may take longer vectors faster; zeros change nothing but the order of sums.
TEST_P(FusedAlibiCuda, MoreColumnsGiveTheSame) {
  at::manual_seed(4);
  const auto fused = random({2, 300, 3 * 8 * 128});
  const auto oracle = alibi_oracle(fused, 8);
  for (const int64_t columns : {16, 32, 64, 128}) {
    FusedAlibi attention(8, GetParam(), kGpu, columns);
    const auto apart = (attention.mix(fused).to(at::kDouble) - oracle.mixed).abs();
    EXPECT_LE((apart / fused_bound(oracle, fused)).max().item<double>(), 1) << columns;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FusedAlibiCuda, testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& dtype) {
                           return dtype.param == at::kHalf ? "float16" : "bfloat16";
                         });

// The model computes what it says that it computes, and roundings as transformers on request.
TEST(BloomCuda, ComputesTheFormThatItNames) {
  const SyntheticModel made{.like = "",
                            .architecture = "bloom",
                            .hidden_size = 512,
                            .heads = 8,
                            .vocab_size = 500,
                            .layers = 1,
                            .seed = 3};
  const ModelOptions options{.dtype = "float16", .device = kGpu};
  ModelOptions as_published = options;
  as_published.reference_forward = true;
  const auto fused = open_synthetic(made, options);
  const auto reference = open_synthetic(made, as_published);
  EXPECT_EQ(fused->forward_policies().at("attention"), "fused, scores in float32");
  EXPECT_EQ(reference->forward_policies().at("attention"),
            "scores in the model's dtype, as transformers");
  at::manual_seed(5);
  const auto ids = at::randint(0, 500, {2, 300}, at::kLong);
  const auto after_attention = [&](CausalLm& model) {
    model.load_block(0);
    auto activations = model.begin(model.embed(ids));
    const auto qkv = model.run_linear("self_attention.query_key_value", activations.input);
    model.run_stage(0, activations);
    return std::pair(qkv, activations.input);
  };
  const auto [qkv, mixed] = after_attention(*fused);
  const auto [same_qkv, rounded] = after_attention(*reference);
  ASSERT_TRUE(at::equal(qkv, same_qkv));
  EXPECT_TRUE(at::equal(mixed, FusedAlibi(8, at::kHalf, kGpu).mix(qkv)));
  EXPECT_TRUE(at::equal(rounded, AlibiAttention(8, at::kHalf, kGpu).mix(qkv)));
  EXPECT_FALSE(at::equal(mixed, rounded));
}

}  // namespace
}  // namespace gptqb
