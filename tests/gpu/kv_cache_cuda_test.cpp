// Text written on a cache on the GPU: as without one, and by steps that can be recorded.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "eval/arriving_tokens.h"
#include "eval/decode_session.h"
#include "methods/graph_replay.h"
#include "tests/models/model_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

const at::Device kGpu("cuda:0");

at::Tensor prompt_of(int64_t rows, int64_t count, int64_t vocabulary) {
  return (at::arange(rows * count, at::kLong) * 37 + 5).remainder(vocabulary).view({rows, count});
}

// Behind the last of `ids`, by the forward pass without a cache.
at::Tensor recomputed(CausalLm& model, const at::Tensor& ids) {
  c10::InferenceMode inference;
  return test::run_model(model, ids).select(1, ids.size(1) - 1);
}

TEST(KvCacheCuda, EveryGoldenModelWritesWhatRecomputingWrites) {
  int models = 0;
  for (const auto& entry : fs::directory_iterator(test::golden_folder(""))) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename());
    for (const char* dtype : {"float32", "float16"}) {
      const auto model = open_model(entry.path(), {.dtype = dtype, .device = kGpu});
      DecodeSession session(*model, {.batch = 2, .positions = 40, .chunk = 16});
      at::Tensor ids = prompt_of(2, 33, model->vocab_size());
      at::Tensor got = session.prefill(ids);
      for (int step = 0; step < 5; ++step) {
        const at::Tensor wanted = recomputed(*model, ids);
        const double most = wanted.abs().max().item<double>();
        EXPECT_LE(test::largest_difference(got, wanted),
                  (model->dtype() == at::kFloat ? 2e-5 : 1e-2) * most)
            << dtype << ", step " << step;
        const at::Tensor next = wanted.argmax(-1, true);
        ids = at::cat({ids, next.cpu()}, 1);
        if (step < 4) got = session.step(next);
      }
    }
    ++models;
  }
  EXPECT_GT(models, 5);
}

TEST(KvCacheCuda, PackedModelsWriteWhatRecomputingWrites) {
  for (const char* name : {"packed_gptq_llama", "packed_gptq_bloom_asym", "packed_gptq_v2_opt"}) {
    SCOPED_TRACE(name);
    const auto model = open_model(test::golden_folder(name),
                                  {.dtype = "float16", .device = kGpu, .backend = "packed"});
    DecodeSession session(*model, {.batch = 1, .positions = 40, .chunk = 8});
    const at::Tensor ids = prompt_of(1, 21, model->vocab_size());
    const at::Tensor wanted = recomputed(*model, ids);
    EXPECT_LE(test::largest_difference(session.prefill(ids), wanted),
              1e-2 * wanted.abs().max().item<double>());
    EXPECT_FALSE(model->kernels_run().empty());
  }
}

// A golden model, packed or with room for longer texts, or one made from a seed with heads that
// fused attention takes.
std::unique_ptr<CausalLm> open_for_steps(const std::string& name) {
  ModelOptions options{.dtype = "float16", .device = kGpu};
  if (name.starts_with("synthetic")) {
    SyntheticModel model;
    model.architecture = name.substr(name.rfind(' ') + 1);
    model.hidden_size = 256;
    model.intermediate_size = 1024;
    model.heads = 4;
    if (model.architecture == "llama") model.kv_heads = 2;
    model.vocab_size = 512;
    model.layers = 3;
    if (name.find("packed") != std::string::npos) {
      model.packed_bits = 4;
      model.packed_group_size = 64;
      options.backend = "packed";
    }
    return open_synthetic(model, options);
  }
  if (name.starts_with("packed")) {
    options.backend = "packed";
    return open_model(test::golden_folder(name), options);
  }
  test::EditedModel edited(name);
  if (edited.config.contains("max_position_embeddings"))
    edited.config["max_position_embeddings"] = 600;
  for (auto& [tensor_name, tensor] : edited.tensors)
    if (tensor_name.find("embed_positions") != std::string::npos)
      tensor = tensor.repeat({10, 1}).narrow(0, 0, 602).contiguous();
  edited.write();
  return open_model(edited.path(), options);
}

// Steps are replayed, at more positions than one recording serves, and eager ones give the same
// bits; the text is what recomputing writes.
TEST(KvCacheCuda, RecordedStepsAreTheSameAsEagerOnes) {
  for (const char* name :
       {"llama_gqa_tied", "opt_pre_norm", "opt_350m", "bloom_8_heads", "packed_gptq_llama",
        "synthetic llama", "synthetic opt", "synthetic bloom", "synthetic packed llama",
        "synthetic packed opt", "synthetic packed bloom"}) {
    SCOPED_TRACE(name);
    const auto model = open_for_steps(name);
    const int64_t start = std::min<int64_t>(250, model->max_positions() - 10);
    DecodeSession recorded(*model, {.batch = 2, .positions = start + 10});
    DecodeSession eager(*model, {.batch = 2, .positions = start + 10, .graphs = false});
    ASSERT_TRUE(recorded.graphs());
    at::Tensor ids = prompt_of(2, start, model->vocab_size());
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second with recordings at hand
      at::Tensor text = ids;
      at::Tensor next = recorded.prefill(ids).argmax(-1, true).clone();
      EXPECT_TRUE(eager.prefill(ids).argmax(-1, true).equal(next));
      for (int step = 0; step < 9; ++step) {
        text = at::cat({text, next.cpu()}, 1);
        const at::Tensor wanted = eager.step(next).clone();
        EXPECT_TRUE(recorded.step(next).equal(wanted)) << step;
        EXPECT_EQ(recorded.cache().length(), eager.cache().length());
        const at::Tensor whole = recomputed(*model, text);
        EXPECT_LE(test::largest_difference(wanted, whole), 1e-2 * whole.abs().max().item<double>())
            << step;
        next = wanted.argmax(-1, true);
      }
      recorded.clear();
      eager.clear();
    }
  }
}

TEST(KvCacheCuda, GreedyStepsTakeTheLargestLogit) {
  const auto model =
      open_model(test::golden_folder("llama_mha"), {.dtype = "float16", .device = kGpu});
  DecodeSession session(*model, {.batch = 3, .positions = 40});
  at::Tensor next = session.prefill(prompt_of(3, 5, model->vocab_size())).argmax(-1, true);
  at::Tensor by_logits = next.clone();
  DecodeSession other(*model, {.batch = 3, .positions = 40});
  other.prefill(prompt_of(3, 5, model->vocab_size()));
  for (int step = 0; step < 6; ++step) {
    next = session.greedy_step(next).clone();
    by_logits = other.step(by_logits).argmax(-1, true);
    EXPECT_TRUE(next.equal(by_logits));
  }
}

TEST(KvCacheCuda, TokensArriveAsTheyWereWhenSent) {
  ArrivingTokens arriving;
  at::Tensor ids = at::zeros({2, 1}, at::TensorOptions(at::kLong).device(kGpu));
  for (int64_t step = 0; step < 5; ++step) {
    ids.fill_(step);
    arriving.send(ids);
  }
  ids.fill_(77);
  for (int64_t step = 0; step < 5; ++step)
    EXPECT_TRUE(arriving.take().eq(step).all().item<bool>()) << step;
}

// Linears of held blocks become one product, and come apart again where one of them is replaced.
TEST(KvCacheCuda, JoinedLinearsComeApartWhereOneIsReplaced) {
  c10::InferenceMode inference;
  for (const char* name : {"llama_biases", "packed_gptq_llama"}) {
    SCOPED_TRACE(name);
    const bool packed = std::string(name).starts_with("packed");
    const ModelOptions options{
        .dtype = "float16", .device = kGpu, .backend = packed ? "packed" : "auto"};
    const auto apart = open_model(test::golden_folder(name), options);
    const auto joined = open_model(test::golden_folder(name), options);
    joined->hold_blocks();
    for (const auto& model : {apart.get(), joined.get()}) model->load_block(1);
    const at::Tensor x = at::randn({1, 1, apart->weight("self_attn.q_proj").size(1)},
                                   at::TensorOptions(at::kHalf).device(kGpu));
    const auto same = [&] {
      for (const char* linear : {"self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj"}) {
        const at::Tensor wanted = apart->run_linear(linear, x);
        const at::Tensor got = joined->run_linear(linear, x);
        EXPECT_EQ(got.sizes(), wanted.sizes());
        EXPECT_LE((got - wanted).abs().max().item<double>(),
                  4e-3 * wanted.abs().max().item<double>())
            << linear;
        EXPECT_TRUE(joined->weight(linear).equal(apart->weight(linear))) << linear;
      }
    };
    same();
    const at::Tensor other = at::randn_like(apart->weight("self_attn.k_proj"));
    for (const auto& model : {apart.get(), joined.get()})
      model->try_weights("self_attn.k_proj", other);
    same();
  }
}

}  // namespace
}  // namespace gptqb
