// A model on a cache of keys and values writes what it writes when the whole text runs through it
// again for each token, by the forward pass that perplexity uses.
#include "models/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/models/packed_model.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

at::Tensor prompt_of(int64_t rows, int64_t count, int64_t vocabulary) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows * count; ++i) ids.push_back((i * i * 7 + i * 13 + 5) % vocabulary);
  return at::tensor(ids, at::kLong).view({rows, count});
}

at::Tensor prefill(CausalLm& model, KvCache& cache, const at::Tensor& ids, int64_t chunk) {
  at::Tensor hidden;
  for (int64_t first = 0; first < ids.size(1); first += chunk)
    hidden = model.run_cached(ids.narrow(1, first, std::min(chunk, ids.size(1) - first)), cache);
  return model.logits(hidden.narrow(1, hidden.size(1) - 1, 1)).squeeze(1);
}

KvCache cache_for(const CausalLm& model, int64_t batch, int64_t positions) {
  return KvCache(model.cache_shape(batch, positions), model.dtype(), model.device());
}

// Behind the last token, [rows, vocab], by the forward pass without a cache.
at::Tensor recomputed(CausalLm& model, const at::Tensor& ids) {
  return run_model(model, ids).select(1, ids.size(1) - 1);
}

struct Writing {
  int64_t steps = 8;
  int64_t chunk = 1 << 20;
  double tolerance = 5e-6;  // of the largest logit
};

// Tokens must agree wherever the oracle's two best logits are further apart than both may err,
// which in float32 is everywhere. Returns how many tokens were not decided so.
int64_t expect_same_writing(CausalLm& model, const at::Tensor& prompt, const Writing& writing) {
  KvCache cache = cache_for(model, prompt.size(0), prompt.size(1) + writing.steps);
  at::Tensor ids = prompt;
  at::Tensor got = prefill(model, cache, prompt, writing.chunk);
  int64_t undecided = 0;
  for (int64_t step = 0; step < writing.steps; ++step) {
    const at::Tensor wanted = recomputed(model, ids).to(at::kDouble);
    const double allowed = writing.tolerance * wanted.abs().max().item<double>();
    EXPECT_LE(largest_difference(got, wanted), allowed) << "step " << step;
    const at::Tensor next = wanted.argmax(-1, /*keepdim=*/true);
    const at::Tensor best = std::get<0>(wanted.topk(2, -1));
    const at::Tensor decided = (best.select(1, 0) - best.select(1, 1)) > 2 * allowed;
    const at::Tensor same = next.eq(got.argmax(-1, true)).squeeze(1);
    EXPECT_TRUE((same | decided.logical_not()).all().item<bool>()) << "step " << step;
    undecided += decided.logical_not().sum().item<int64_t>();
    ids = at::cat({ids, next}, 1);
    if (step + 1 < writing.steps) got = model.logits(model.run_cached(next, cache)).squeeze(1);
  }
  if (model.dtype() == at::kFloat) {
    EXPECT_EQ(undecided, 0);
  }
  return undecided;
}

// Of a golden model, with room for longer texts.
std::unique_ptr<CausalLm> longer(EditedModel model, int64_t positions, const char* dtype) {
  if (model.config.contains("max_position_embeddings"))
    model.config["max_position_embeddings"] = positions;
  if (model.config.contains("sliding_window")) model.config["sliding_window"] = positions;
  for (auto& [name, tensor] : model.tensors)
    if (name.find("embed_positions") != std::string::npos)
      tensor = tensor.repeat({positions / 64 + 1, 1}).narrow(0, 0, positions + 2).contiguous();
  auto opened = model.open(dtype);
  opened->hold_blocks();
  return opened;
}

const std::vector<std::string> kDense = {
    "bloom_6_heads",  "bloom_8_heads",      "bloom_post_norm", "llama_biases", "llama_dynamic",
    "llama_gqa_tied", "llama_linear",       "llama_llama3_8",  "llama_mha",    "llama_one_kv_head",
    "llama_yarn",     "llama_bf16_sharded", "mistral",         "opt_350m",     "opt_pre_norm"};

class EveryModelOnACache : public testing::TestWithParam<std::string> {};

std::unique_ptr<CausalLm> open_long(const std::string& name, const char* dtype) {
  if (name == "llama_bf16_sharded") {  // several files, which an edited model does not keep
    auto model = open_model(golden_folder(name), {.dtype = dtype});
    model->hold_blocks();
    return model;
  }
  return longer(EditedModel(name), 160, dtype);
}

TEST_P(EveryModelOnACache, WritesWhatRecomputingWrites) {
  const auto model = open_long(GetParam(), "float32");
  for (const int64_t length : {1, 2, 7, 33, 50, 101})
    if (length + 8 <= model->max_positions())
      expect_same_writing(*model, prompt_of(1, length, model->vocab_size()), {});
}

TEST_P(EveryModelOnACache, ChunksAndRowsChangeNothing) {
  const auto model = open_long(GetParam(), "float32");
  for (const int64_t chunk : {1, 3, 16})
    expect_same_writing(*model, prompt_of(3, 37, model->vocab_size()), {.chunk = chunk});
}

// Sums are rounded to 11 and 8 bits, in another order with a cache than without.
TEST_P(EveryModelOnACache, HalfPrecisionStaysWithinItsRounding) {
  for (const auto& [dtype, tolerance] : {std::pair{"float16", 4e-3}, {"bfloat16", 3e-2}}) {
    const auto model = open_long(GetParam(), dtype);
    KvCache cache = cache_for(*model, 2, 48);
    const at::Tensor ids = prompt_of(2, 40, model->vocab_size());
    const at::Tensor wanted = recomputed(*model, ids);
    EXPECT_LE(largest_difference(prefill(*model, cache, ids, 16), wanted),
              tolerance * std::max(1.0, wanted.abs().max().item<double>()))
        << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryModelOnACache, testing::ValuesIn(kDense),
                         [](const auto& param) { return param.param; });

class EveryPackedModelOnACache : public testing::TestWithParam<std::string> {};

TEST_P(EveryPackedModelOnACache, WritesWhatRecomputingWrites) {
  for (const auto& [dtype, backend, tolerance] :
       {std::tuple{"float32", "dense", 5e-6}, {"float16", "packed", 6e-3}}) {
    SCOPED_TRACE(backend);
    const auto model = open_model(golden_folder(GetParam()), {.dtype = dtype, .backend = backend});
    model->hold_blocks();
    int64_t undecided = 0;
    for (const int64_t length : {1, 5, 20, 50})
      undecided += expect_same_writing(*model, prompt_of(2, length, model->vocab_size()),
                                       {.steps = 6, .chunk = 16, .tolerance = tolerance});
    EXPECT_LE(undecided, 4 * 6 * 2 / 2) << "too few tokens tell anything";
    EXPECT_EQ(model->kernels_run().empty(), std::string(backend) == "dense");
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryPackedModelOnACache,
                         testing::Values("packed_compressed_llama_asym", "packed_gptq_bloom_asym",
                                         "packed_gptq_llama", "packed_gptq_v2_llama_act_order",
                                         "packed_gptq_v2_opt", "packed_unlabelled_opt",
                                         "saved_gptq_llama", "saved_gptq_v2_opt"),
                         [](const auto& param) { return param.param; });

// What attention reads grows in steps: texts that end before, at and behind such a border, and a
// long one.
TEST(KvCache, BordersOfItsReachChangeNothing) {
  constexpr int64_t kStep = KvCache::kReachStep;
  for (const char* name : {"llama_gqa_tied", "opt_pre_norm", "bloom_6_heads"}) {
    SCOPED_TRACE(name);
    const auto model = longer(EditedModel(name), 1100, "float32");
    for (const int64_t length : {kStep - 3, kStep, kStep + 1})
      expect_same_writing(*model, prompt_of(1, length, model->vocab_size()),
                          {.steps = 5, .chunk = 100});
    expect_same_writing(*model, prompt_of(1, 1000, model->vocab_size()),
                        {.steps = 2, .chunk = 256});
  }
}

TEST(KvCache, AModelThatHoldsNoBlocksWritesTheSame) {
  const auto held = longer(EditedModel("llama_mha"), 64, "float32");
  const auto streamed = EditedModel("llama_mha").open();
  const at::Tensor ids = prompt_of(2, 12, held->vocab_size());
  KvCache one = cache_for(*held, 2, 16), other = cache_for(*streamed, 2, 16);
  for (const int64_t chunk : {5, 2, 2})
    EXPECT_TRUE(at::equal(prefill(*held, one, ids.narrow(1, one.length(), chunk), 64),
                          prefill(*streamed, other, ids.narrow(1, other.length(), chunk), 64)));
  EXPECT_EQ(one.length(), 9);
}

// Published perplexities come from there.
TEST(KvCache, TheForwardPassWithoutItKeepsEveryBit) {
  for (const std::string& name : kDense)
    for (const char* dtype : {"float32", "float16"}) {
      const auto open = [&] { return open_model(golden_folder(name), {.dtype = dtype}); };
      const auto model = open();
      const at::Tensor ids = prompt_of(2, 37, model->vocab_size());
      const at::Tensor before = run_model(*model, ids);
      KvCache cache = cache_for(*model, 1, 48);
      model->hold_blocks();
      prefill(*model, cache, ids.narrow(0, 0, 1), 7);
      EXPECT_TRUE(at::equal(run_model(*model, ids), before)) << name;
      // Also where the cache came first.
      const auto other = open();
      KvCache first = cache_for(*other, 1, 48);
      prefill(*other, first, ids.narrow(0, 0, 1), 7);
      EXPECT_TRUE(at::equal(run_model(*other, ids), before)) << name;
    }
}

TEST(KvCache, HoldsReplacedLinearsAndKeepsReplacingThem) {
  const auto model = EditedModel("llama_mha").open();
  model->hold_blocks();
  const at::Tensor ids = prompt_of(1, 9, model->vocab_size());
  KvCache cache = cache_for(*model, 1, 16);
  const at::Tensor before = prefill(*model, cache, ids, 9);
  model->load_block(1);
  model->try_weights("mlp.up_proj", at::zeros_like(model->weight("mlp.up_proj")));
  cache.clear();
  const at::Tensor after = prefill(*model, cache, ids, 9);
  EXPECT_GT(largest_difference(before, after), 1e-3);
  EXPECT_LE(largest_difference(after, recomputed(*model, ids)), 2e-5);
}

TEST(KvCache, ClearedItIsAsNew) {
  const auto model = longer(EditedModel("bloom_8_heads"), 64, "float32");
  KvCache cache = cache_for(*model, 1, 40);
  prefill(*model, cache, prompt_of(1, 40, model->vocab_size()), 40);
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  const at::Tensor ids = prompt_of(1, 6, model->vocab_size());
  KvCache fresh = cache_for(*model, 1, 40);
  EXPECT_TRUE(at::equal(prefill(*model, cache, ids, 6), prefill(*model, fresh, ids, 6)));
}

TEST(KvCache, MaskAndPositionsByHand) {
  KvCache cache({.blocks = 1, .batch = 1, .kv_heads = 1, .positions = 300, .head_dim = 2},
                at::kFloat, at::kCPU);
  EXPECT_EQ(cache.allocated_positions(), 512);
  EXPECT_EQ(cache.bytes(), 2 * 512 * 2 * 4);
  cache.extend(3);
  cache.extend(2);
  EXPECT_TRUE(at::equal(cache.positions(), at::tensor({3, 4}, at::kLong)));
  EXPECT_EQ(cache.reach(), 256);
  for (int64_t query = 0; query < 2; ++query)
    for (int64_t key = 0; key < 256; ++key)
      EXPECT_EQ(cache.mask()[query][key].item<float>(),
                key <= 3 + query ? 0.0f : -std::numeric_limits<float>::infinity());
  cache.extend(252);
  EXPECT_EQ(cache.length(), 257);
  EXPECT_EQ(cache.reach(), 512);
}

TEST(KvCache, WhatDoesNotFitIsRefused) {
  const auto model = EditedModel("llama_mha").open();
  EXPECT_THAT(message_of([&] { model->cache_shape(1, 65); }),
              HasSubstr("expected at most 64 positions, which the model has, got 65"));
  EXPECT_THAT(message_of([&] { cache_for(*model, 0, 5); }),
              HasSubstr("expected at least one sequence of one position, got 0 of 5"));
  KvCache cache = cache_for(*model, 1, 5);
  prefill(*model, cache, prompt_of(1, 3, 48), 3);
  EXPECT_THAT(
      message_of([&] { prefill(*model, cache, prompt_of(1, 3, 48), 3); }),
      AllOf(HasSubstr("expected 1 to 2 more tokens (it has 5 positions and holds 3), got 3"),
            HasSubstr("Make it for more positions")));
  EXPECT_THAT(
      message_of([&] { prefill(*model, cache, at::tensor({48}, at::kLong).unsqueeze(0), 1); }),
      HasSubstr("expected token ids in 0 .. 47, got 48"));
  EXPECT_EQ(cache.length(), 3);  // what was refused is not in it
}

}  // namespace
}  // namespace gptqb::test
