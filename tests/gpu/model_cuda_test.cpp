// Models, solvers and perplexity on the GPU held against the CPU.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "common/error.h"
#include "eval/window_loss.h"
#include "kernels/device_info.h"
#include "methods/quantize_model.h"
#include "models/causal_lm.h"
#include "tests/support/memory_store.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

const fs::path kQuickstart = fs::path(GPTQB_SOURCE_DIR) / "assets/quickstart-model";

at::Tensor random_ids(int64_t sequences, int64_t seqlen, int64_t vocab) {
  at::manual_seed(3);
  return at::randint(3, vocab, {sequences, seqlen}, at::kLong);
}

at::Tensor logits_of(CausalLm& model, const at::Tensor& ids) {
  at::Tensor hidden = model.embed(ids);
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    hidden = model.run_block(hidden);
  }
  return model.logits(hidden).to(at::kFloat).cpu();
}

TEST(ModelCuda, LogitsOfEveryGoldenModelEqualTheCpu) {
  int models = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(GPTQB_SOURCE_DIR) / "tests/models/golden")) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename());
    const auto cpu = open_model(entry.path(), {.dtype = "float32"});
    const auto gpu = open_model(entry.path(), {.dtype = "float32", .device = at::Device("cuda:0")});
    const at::Tensor ids =
        random_ids(2, std::min<int64_t>(16, cpu->max_positions()), cpu->vocab_size());
    EXPECT_TRUE(at::allclose(logits_of(*cpu, ids), logits_of(*gpu, ids), 1e-4, 1e-4));
    ++models;
  }
  EXPECT_GT(models, 5);
}

TEST(ModelCuda, HalfPrecisionLogitsAreNearFloat32) {
  const auto cpu = open_model(kQuickstart, {.dtype = "float32"});
  const at::Tensor ids = random_ids(1, 128, cpu->vocab_size());
  const at::Tensor exact = logits_of(*cpu, ids);
  for (const char* dtype : {"float16", "bfloat16"}) {
    const auto gpu = open_model(kQuickstart, {.dtype = dtype, .device = at::Device("cuda:0")});
    const double error = ((logits_of(*gpu, ids) - exact).norm() / exact.norm()).item<double>();
    EXPECT_LT(error, dtype == std::string("float16") ? 5e-3 : 4e-2) << dtype;
  }
}

QuantizeOptions four_bit_groups(SolverKind solver) {
  QuantizeOptions options;
  options.method.solver = solver;
  options.settings = [](const std::string&) {
    return LayerSettings{.skip = false, .method = "gptq", .quant = {.bits = 4, .group_size = 64}};
  };
  return options;
}

// Faults QN-18: the GPU may differ from the CPU only where a value lies on a rounding boundary.
TEST(QuantizeCuda, LossesOfBothSolversAgreeWithTheCpu) {
  for (SolverKind solver : {SolverKind::kFast, SolverKind::kReference}) {
    std::vector<std::vector<LayerHealth>> health;
    for (const char* device : {"cpu", "cuda:0"}) {
      const auto model =
          open_model(kQuickstart, {.dtype = "float32", .device = at::Device(device)});
      const at::Tensor ids = random_ids(8, 64, model->vocab_size());
      health.push_back(quantize_model(*model, ids, {}, four_bit_groups(solver)).layers);
    }
    ASSERT_EQ(health[0].size(), 6u * 7u);
    // Differences grow along the blocks, so the first block is held to the solver's own bound
    // (solver.md).
    for (size_t i = 0; i < 7; ++i)
      EXPECT_NEAR(*health[1][i].loss / *health[0][i].loss, 1, 5e-3) << health[0][i].layer;
    for (size_t i = 7; i < health[0].size(); ++i)
      EXPECT_NEAR(*health[1][i].loss / *health[0][i].loss, 1, 0.05) << health[0][i].layer;
  }
}

TEST(QuantizeCuda, TheSameCallGivesTheSameCodes) {
  std::vector<at::Tensor> weights;
  for (int run = 0; run < 2; ++run) {
    const auto model =
        open_model(kQuickstart, {.dtype = "float16", .device = at::Device("cuda:0")});
    const at::Tensor ids = random_ids(8, 64, model->vocab_size());
    quantize_model(*model, ids, {}, four_bit_groups(SolverKind::kFast));
    model->load_block(model->block_count() - 1);
    weights.push_back(model->weight("mlp.down_proj").clone());
  }
  EXPECT_TRUE(at::equal(weights[0], weights[1]));
}

// Where things wait for their turn changes no bit: hidden states on the device or in pinned host
// memory, the next block read before it is asked for or then, codes in memory or on a shelf.
TEST(QuantizeCuda, WhereThingsWaitChangesNoBit) {
  for (const bool true_sequential : {false, true})
    for (const StatsInputs inputs : {StatsInputs::kQuantized, StatsInputs::kDense}) {
      std::vector<std::vector<LayerHealth>> health;
      std::vector<at::Tensor> logits;
      for (const bool streamed : {false, true}) {
        const auto model = open_model(
            kQuickstart,
            {.dtype = "float16", .device = at::Device("cuda:0"), .read_ahead = streamed});
        const at::Tensor ids = random_ids(10, 64, model->vocab_size());
        QuantizeOptions options = four_bit_groups(SolverKind::kFast);
        options.method.true_sequential = true_sequential;
        options.method.inputs = inputs;
        options.sequences_per_chunk = 3;
        options.activations_on_host = streamed;
        test::MemoryStore store;
        if (streamed) {
          options.resume = &store;
          model->leave_replaced_to(&store);
        }
        health.push_back(
            quantize_model(*model, ids.narrow(0, 0, 8), ids.narrow(0, 8, 2), options).layers);
        logits.push_back(logits_of(*model, ids));
      }
      EXPECT_TRUE(at::equal(logits[0], logits[1]));
      ASSERT_EQ(health[0].size(), health[1].size());
      for (size_t i = 0; i < health[0].size(); ++i) {
        EXPECT_EQ(health[0][i].codes, health[1][i].codes) << health[0][i].layer;
        EXPECT_EQ(health[0][i].relative_error_heldout, health[1][i].relative_error_heldout);
        EXPECT_EQ(health[0][i].drift, health[1][i].drift);
      }
    }
}

// Fault MM-01: equal blocks take equal memory, the first of them and the last.
TEST(QuantizeCuda, MemoryDoesNotGrowFromBlockToBlock) {
  SyntheticModel made;
  made.architecture = "llama";
  made.hidden_size = 256;
  made.intermediate_size = 512;
  made.heads = 4;
  made.vocab_size = 200;
  const at::Device device("cuda:0");
  std::vector<double> peaks;
  for (const int64_t layers : {3, 24}) {
    made.layers = layers;
    const auto model = open_synthetic(made, {.dtype = "float16", .device = device});
    at::empty({1}, at::TensorOptions(device));  // the allocator knows a device once it was used
    c10::DeviceAllocator* allocator = c10::getDeviceAllocator(at::kCUDA);
    allocator->resetPeakStats(0);
    model->leave_replaced_to(nullptr);
    quantize_model(*model, random_ids(8, 64, 200), {}, four_bit_groups(SolverKind::kFast));
    peaks.push_back(static_cast<double>(allocator->getDeviceStats(0).allocated_bytes[0].peak));
  }
  EXPECT_NEAR(peaks[1] / peaks[0], 1, 0.01);
}

// Fault QN-03: a factorization that fails must be an error on the GPU too, never a silent NaN.
TEST(QuantizeCuda, ASingularHessianIsAnErrorNotANaN) {
  CalibrationStats stats(2, at::Device("cuda:0"));
  stats.add(at::ones({1, 4, 2}, at::Device("cuda:0")));
  LinearProblem problem;
  problem.layer = "toy";
  problem.weight = at::tensor({1.f, -0.5f}).view({1, 2}).cuda();
  problem.stats = &stats;
  problem.quant.group_size = -1;
  problem.method.damping = 0;
  problem.method.on_failure = OnFailure::kError;
  for (SolverKind solver : {SolverKind::kFast, SolverKind::kReference}) {
    problem.method.solver = solver;
    try {
      quantizers().at("gptq").make()->quantize(problem);
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("positive definite"));
    }
  }
}

TEST(DeviceInfo, ThisGpuCanRunOurKernels) {
  const kernels::CudaInfo info = kernels::cuda_info();
  ASSERT_EQ(info.unavailable, "");
  ASSERT_FALSE(info.devices.empty());
  EXPECT_EQ(info.devices[0].unusable, "");
  EXPECT_GT(info.devices[0].memory_total, int64_t{1} << 30);
}

}  // namespace
}  // namespace gptqb
