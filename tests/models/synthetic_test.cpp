// Models made from a seed: any published shape, without files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"
#include "models/causal_lm.h"
#include "models/published_shapes.h"
#include "tests/models/model_folder.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

// Parameters as the published checkpoints have them (safetensors metadata of their repositories).
const std::map<std::string, int64_t>& published_parameters() {
  static const std::map<std::string, int64_t> counts = {
      {"opt-125m", 125239296},      {"opt-350m", 331196416},    {"opt-1.3b", 1315758080},
      {"opt-6.7b", 6658473984},     {"bloom-560m", 559214592},  {"bloom-1b7", 1722408960},
      {"bloom-3b", 3002557440},     {"bloom-7b1", 7069016064},  {"bloom-176b", 176247271424},
      {"llama-7b", 6738415616},     {"llama-13b", 13015864320}, {"llama-30b", 32528943616},
      {"llama-65b", 65285660672},   {"llama-2-7b", 6738415616}, {"llama-2-13b", 13015864320},
      {"llama-2-70b", 68976648192}, {"llama-3-8b", 8030261248}, {"llama-3-70b", 70553706496}};
  return counts;
}

SyntheticModel tiny(const std::string& architecture, int64_t seed, int64_t layers = 3) {
  SyntheticModel model;
  model.architecture = architecture;
  model.hidden_size = 32;
  model.intermediate_size = 128;
  model.heads = 4;
  model.vocab_size = 60;
  model.layers = layers;
  model.seed = seed;
  return model;
}

SyntheticModel like(const std::string& name, int64_t layers = 0) {
  SyntheticModel model;
  model.like = name;
  model.layers = layers;
  return model;
}

TEST(PublishedShapes, HaveThePublishedNumberOfParameters) {
  for (const auto& [name, count] : published_parameters()) {
    const auto model = open_synthetic(like(name), {});
    EXPECT_EQ(model->parameter_count(), count) << name;
  }
}

TEST(PublishedShapes, OpenWithoutMakingAnyWeight) {
  for (const std::string& name : published_shapes()) {
    const auto model = open_synthetic(like(name), {});
    EXPECT_GT(model->block_count(), 0) << name;
    EXPECT_EQ(model->dtype(), at::kHalf) << name;
  }
}

TEST(PublishedShapes, LayersShortenTheModel) {
  for (const char* name : {"opt-175b", "bloom-176b", "llama-65b"})
    EXPECT_EQ(open_synthetic(like(name, 2), {})->block_count(), 2) << name;
}

TEST(SyntheticModel, WhatCannotBeMadeIsNamed) {
  const auto message = [](const SyntheticModel& model) {
    return test::message_of([&] { model.config(); });
  };
  SyntheticModel both = like("llama-7b");
  both.hidden_size = 64;
  EXPECT_THAT(message(both), testing::HasSubstr("expected it alone"));
  SyntheticModel bare;
  bare.architecture = "llama";
  EXPECT_THAT(message(bare), testing::HasSubstr("model.synthetic.hidden_size"));
  SyntheticModel shared = tiny("opt", 0);
  shared.kv_heads = 2;
  EXPECT_THAT(message(shared), testing::HasSubstr("kv_heads"));
  EXPECT_THAT(message(tiny("gpt", 0)), testing::HasSubstr("architecture"));
}

TEST(PublishedShapes, AnUnknownNameGetsTheNearest) {
  EXPECT_THAT(test::message_of([] { published_config("llama-7B"); }),
              testing::HasSubstr("llama-7b"));
}

at::Tensor logits_of(CausalLm& model) {
  at::Tensor hidden = model.embed(at::arange(30, at::kLong).view({3, 10}));
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    hidden = model.run_block(hidden);
  }
  return model.logits(hidden);
}

class SyntheticModels : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<CausalLm> open(int64_t seed) const {
    return open_synthetic(tiny(GetParam(), seed), {.dtype = "float32"});
  }
};

TEST_P(SyntheticModels, TheSeedDecidesEveryWeight) {
  const auto first = logits_of(*open(1));
  EXPECT_TRUE(first.isfinite().all().item<bool>());
  EXPECT_TRUE(at::equal(logits_of(*open(1)), first));
  EXPECT_FALSE(at::equal(logits_of(*open(2)), first));
  EXPECT_NE(open(1)->fingerprint(), open(2)->fingerprint());
}

// Asked for in another order, or again: the same numbers.
TEST_P(SyntheticModels, ABlockIsTheSameWheneverItIsMade) {
  const auto model = open(5);
  const std::string linear = model->stages()[0].linears[0];
  model->load_block(2);
  const auto weight = model->weight(linear).clone();
  model->load_block(0);
  EXPECT_FALSE(at::equal(model->weight(linear), weight));
  model->load_block(2);
  EXPECT_TRUE(at::equal(model->weight(linear), weight));
}

// Some input features of every stage are far larger than the rest.
TEST_P(SyntheticModels, InputFeaturesHaveHeavyTails) {
  const auto model = open(3);
  model->load_block(1);
  at::manual_seed(0);
  auto activations = model->begin(at::randn({4, 16, 32}));
  for (size_t stage = 0; stage < model->stages().size(); ++stage) {
    const auto energy = activations.input.square().flatten(0, 1).mean(0);
    EXPECT_GT((energy.max() / energy.median()).item<double>(), 4) << stage;
    model->run_stage(stage, activations);
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& family) { return family.param; }

INSTANTIATE_TEST_SUITE_P(Families, SyntheticModels, testing::Values("opt", "bloom", "llama"),
                         name_of);

SyntheticModel packed(const std::string& architecture, int64_t bits, int64_t group_size) {
  SyntheticModel model = tiny(architecture, 5);
  model.hidden_size = 64;
  if (architecture == "bloom") model.intermediate_size = 256;
  model.packed_bits = bits;
  model.packed_group_size = group_size;
  return model;
}

// A weight that leans to one side, as uniform codes of 2 bits do, overflows float16 in 32 blocks.
TEST(PackedSyntheticModels, WeightsAreAsLargeAsDenseOnesAndOfMeanZero) {
  for (const int64_t bits : {2, 3, 4, 8}) {
    SyntheticModel model = packed("llama", bits, 32);
    model.hidden_size = 256;
    const auto made = open_synthetic(model, {.dtype = "float32"});
    model.packed_bits = 0;
    model.packed_group_size = -1;
    const auto dense = open_synthetic(model, {.dtype = "float32"});
    made->load_block(1);
    dense->load_block(1);
    for (const char* linear : {"self_attn.q_proj", "mlp.down_proj"}) {
      const at::Tensor weights = made->weight(linear);
      const double deviation = weights.std().item<double>();
      EXPECT_NEAR(deviation / dense->weight(linear).std().item<double>(), 1, 0.05) << bits;
      const auto count = static_cast<double>(weights.numel());
      EXPECT_LE(std::abs(weights.mean().item<double>()), 5 * deviation / std::sqrt(count)) << bits;
      // All codes but the lowest, which has no counterpart.
      const int64_t levels = std::get<0>(at::_unique(weights[0])).numel();
      EXPECT_LE(levels, (int64_t{1} << bits) - 1);
      EXPECT_GE(levels, bits == 8 ? 60 : (int64_t{1} << bits) - 1);
    }
  }
}

TEST(PackedSyntheticModels, AreTheSameEachTimeAndAnotherWithAnotherSeed) {
  SyntheticModel model = packed("opt", 3, -1);
  const auto weights_of = [&] {
    const auto made = open_synthetic(model, {});
    made->load_block(2);
    return made->weight("fc1").clone();
  };
  const at::Tensor once = weights_of();
  EXPECT_TRUE(weights_of().equal(once));
  model.seed = 6;
  EXPECT_FALSE(weights_of().equal(once));
}

// Products of codes on the CPU's kernel against dequantized weights.
TEST(PackedSyntheticModels, ComputeFromTheirCodes) {
  for (const char* architecture : {"llama", "opt", "bloom"})
    for (const int64_t group_size : {-1, 32}) {
      const SyntheticModel model = packed(architecture, 4, group_size);
      const auto from_codes = open_synthetic(model, {.dtype = "float16", .backend = "packed"});
      const auto dense = open_synthetic(model, {.dtype = "float16", .backend = "dense"});
      const at::Tensor ids = at::arange(12, at::kLong).view({1, 12});
      const at::Tensor got = test::run_model(*from_codes, ids);
      const at::Tensor wanted = test::run_model(*dense, ids);
      EXPECT_FALSE(from_codes->kernels_run().empty());
      EXPECT_LE((got - wanted).abs().max().item<double>(), 0.01 * wanted.abs().max().item<double>())
          << architecture;
      // 16 bits a scale, one for each group of a row.
      const PackedShare share = from_codes->packed_share();
      const int64_t hidden = 64, wide = std::string(architecture) == "bloom" ? 256 : 128;
      const int64_t gates = std::string(architecture) == "llama" ? 2 : 1;
      EXPECT_EQ(share.weights, 3 * (4 * hidden * hidden + (gates + 1) * wide * hidden));
      if (group_size == 32) {
        EXPECT_EQ(share.bits, share.weights * 4 + share.weights / 32 * 16);
      }
    }
}

TEST(PackedSyntheticModels, BadSettingsAreNamed) {
  EXPECT_THAT(test::message_of([] { open_synthetic(packed("llama", 5, 64), {}); }),
              testing::HasSubstr("model.synthetic.packed"));
  EXPECT_THAT(test::message_of([] { open_synthetic(packed("llama", 0, 64), {}); }),
              testing::HasSubstr("expected it with model.synthetic.packed.bits, got it alone"));
}

}  // namespace
}  // namespace gptqb
