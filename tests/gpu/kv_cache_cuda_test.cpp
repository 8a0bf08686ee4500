// Text written on a cache on the GPU: as without one, and by steps that can be recorded.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

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

// A step that waited for the device, or that depended on a number of the host's, could not be
// recorded once and replayed at other positions.
TEST(KvCacheCuda, OneRecordedStepServesManyPositions) {
  for (const char* name : {"llama_gqa_tied", "opt_350m", "bloom_8_heads"}) {
    SCOPED_TRACE(name);
    const auto model = open_model(test::golden_folder(name), {.dtype = "float16", .device = kGpu});
    DecodeSession session(*model, {.batch = 1, .positions = 60});
    at::Tensor ids = prompt_of(1, 20, model->vocab_size());
    session.prefill(ids);
    GraphReplay replay;
    replay.record([&](const at::Tensor& next) { return std::vector{session.step(next)}; },
                  ids.narrow(1, 0, 1).to(kGpu));
    session.clear();
    at::Tensor logits = session.prefill(ids);
    for (int step = 0; step < 8; ++step) {
      const at::Tensor next = logits.argmax(-1, true);
      logits = replay.run(next)[0].clone();
      ids = at::cat({ids, next.cpu()}, 1);
      const at::Tensor wanted = recomputed(*model, ids);
      EXPECT_LE(test::largest_difference(logits, wanted), 1e-2 * wanted.abs().max().item<double>())
          << step;
    }
  }
}

}  // namespace
}  // namespace gptqb
