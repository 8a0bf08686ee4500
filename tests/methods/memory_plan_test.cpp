// Bytes counted by hand, and what limits make of them.
#include "methods/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace gptqb {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kGiB = int64_t{1} << 30;

int64_t need(const MemoryPlan::Needs& needs, const std::string& what) {
  for (const auto& [name, bytes] : needs)
    if (name == what) return bytes;
  return 0;
}

// OPT-175B (Zhang et al. 2022, table 1): 96 blocks, hidden 12288, inner 49152, in float16.
ModelSizes opt_175b() {
  constexpr int64_t h = 12288;
  return {.blocks = 96,
          .element_bytes = 2,
          .block_tensors = {h * h, h * h, h * h, h * h, 4 * h * h, 4 * h * h},
          .stages = {{h, {h, h, h}}, {h, {h}}, {h, {4 * h}}, {4 * h, {h}}},
          .end_elements = 50272 * h,
          .vocabulary = 50272};
}

// The paper's calibration: 128 windows of 2048 tokens.
MemoryTask paper_task() {
  MemoryTask task;
  task.on_gpu = true;
  task.quantizes = true;
  task.calibration_tokens = 128 * 2048;
  task.tokens_per_pass = 16 * 2048;
  return task;
}

TEST(MemoryPlan, CountsOpt175B) {
  const MemoryPlan plan = plan_memory(opt_175b(), paper_task(), {});
  EXPECT_EQ(need(plan.device, "block"), 3'623'878'656);        // 12 x 12288^2 x 2
  EXPECT_EQ(need(plan.device, "activations"), 6'442'450'944);  // 262144 x 12288 x 2
  EXPECT_EQ(plan.activation_bytes, 6'442'450'944);
  // Each linear waits in pinned memory, which comes in powers of two: four of 288 MiB in 512, two
  // of 1152 MiB in 2048.
  EXPECT_EQ(need(plan.host, "next block"), (4 * 512 + 2 * 2048) * (kGiB / 1024));
  EXPECT_EQ(plan.finished, FinishedBlocks::kNowhere) << "nothing reads them again";
  EXPECT_EQ(need(plan.host, "codes"), 0);
  EXPECT_LT(plan.device_bytes(), 141'000'000'000) << "it runs on one H200";
  EXPECT_LT(plan.host_bytes(), 16 * kGiB);

  // 3 bits a code, padded to bytes: 54 and 216 MiB, in 64 and 256; their scales and zeros beside.
  MemoryTask three_bits = paper_task();
  three_bits.bits = 3;
  const int64_t written = need(plan_memory(opt_175b(), three_bits, {}).host, "blocks written");
  EXPECT_GE(written, 2 * (4 * 64 + 2 * 256) * (kGiB / 1024));
  EXPECT_LT(written, 2 * (4 * 64 + 2 * 256 + 1) * (kGiB / 1024));

  // At the peak the widest stage is solved: sums of the others are gone by then.
  EXPECT_EQ(need(plan.device, "Hessians"), 4 * int64_t{49152} * 49152);
  // H of 49152 inputs five times while it is turned round for the factorization.
  EXPECT_EQ(need(plan.device, "factor"), 5 * 4 * int64_t{49152} * 49152);
  MemoryTask heldout = paper_task();
  heldout.heldout_tokens = 8 * 2048;
  EXPECT_EQ(need(plan_memory(opt_175b(), heldout, {}).device, "Hessians"),
            2 * 4 * int64_t{49152} * 49152);
  MemoryTask sequential = paper_task();
  sequential.true_sequential = true;
  const MemoryPlan in_sequence = plan_memory(opt_175b(), sequential, {});
  EXPECT_EQ(need(in_sequence.device, "activations"), int64_t{262144} * (12288 + 49152) * 2);
}

// Where blocks are small and passes large, H of every stage waits while the last is collected.
// BLOOM-7.1B: its GELU and softmax are kernels that work in place on 16 bits of a GPU, and its
// scores are then those of some queries; tensor operations hold three copies and five times the
// bytes.
TEST(MemoryPlan, KernelsThatWorkInPlaceNeedNoCopies) {
  constexpr int64_t h = 4096;
  ModelSizes bloom{.blocks = 30,
                   .element_bytes = 2,
                   .block_tensors = {3 * h * h, h * h, 4 * h * h, 4 * h * h},
                   .stages = {{h, {3 * h}}, {h, {h}}, {h, {4 * h}}, {4 * h, {h}}},
                   .end_elements = 250880 * h,
                   .vocabulary = 250880,
                   .activation_copies = 3,
                   .scores_at_once = int64_t{1} << 26,
                   .heads = 32};
  MemoryTask task;
  task.on_gpu = true;
  task.evaluates = true;
  task.seqlen = 2048;
  task.evaluation_tokens = task.evaluation_tokens_per_pass = 16 * 2048;
  const auto pass = [&] { return need(plan_memory(bloom, task, {}).device, "pass over a block"); };
  // Residual before and after, the chunk, and an MLP's input, inner values and output, in 2 bytes.
  EXPECT_EQ(pass(), int64_t{16 * 2048} * (3 * h + h + 4 * h + h) * 2);
  bloom.element_bytes = 4;
  EXPECT_EQ(pass(), int64_t{16 * 2048} * (3 * h + h + 3 * 4 * h) * 4);
}

// Of a block whose widest moment is attention: a fused one holds no scores, but what it widens. On
// the CPU, and in 32 bits, it is not fused.
TEST(MemoryPlan, FusedAttentionHoldsNoScores) {
  constexpr int64_t h = 256, tokens = 4 * 512;
  ModelSizes sizes{.blocks = 2,
                   .element_bytes = 2,
                   .block_tensors = {3 * h * h, h * h},
                   .stages = {{h, {3 * h}}, {h, {h}}},
                   .vocabulary = 100,
                   .scores_at_once = int64_t{1} << 26,
                   .heads = 4};
  MemoryTask task;
  task.on_gpu = true;
  task.evaluates = true;
  task.seqlen = 512;
  task.evaluation_tokens = task.evaluation_tokens_per_pass = tokens;
  const auto pass = [&] { return need(plan_memory(sizes, task, {}).device, "pass over a block"); };
  EXPECT_EQ(pass(), (tokens * 8 * h + 4 * 512 * 512) * 2) << "scores of one sequence";
  sizes.fused_attention_features = 2 * 4 * (64 + 8);
  EXPECT_EQ(pass(), tokens * (6 * h + 2 * 4 * (64 + 8)) * 2);
  sizes.element_bytes = 4;
  EXPECT_EQ(pass(), tokens * 8 * h * 4 + 4 * tokens * 512 * 10);
  task.on_gpu = false;
  sizes.element_bytes = 2;
  EXPECT_EQ(need(plan_memory(sizes, task, {}).host, "pass over a block"),
            tokens * 8 * h * 2 + 4 * tokens * 512 * 10);
}

TEST(MemoryPlan, AWidePassKeepsTheSumsOfAllStages) {
  ModelSizes sizes = opt_175b();
  sizes.stages = {{64, {64, 64, 64}}, {64, {64}}, {64, {256}}, {256, {64}}};
  sizes.block_tensors = {64 * 64};
  const MemoryPlan plan = plan_memory(sizes, paper_task(), {});
  EXPECT_GT(need(plan.device, "pass over a block"), 0);
  EXPECT_EQ(need(plan.device, "Hessians"), 4 * (3 * 64 * 64 + 256 * 256));
  MemoryTask sequential = paper_task();
  sequential.true_sequential = true;
  EXPECT_EQ(need(plan_memory(sizes, sequential, {}).device, "Hessians"), 4 * 256 * 256);
}

TEST(MemoryPlan, CodesOfAllBlocksTakeTheirBitsAndTheirGrids) {
  MemoryTask task = paper_task();
  task.evaluates = true;
  task.group_size = 128;
  task.bits = 3;
  const MemoryPlan plan = plan_memory(opt_175b(), task, {});
  EXPECT_EQ(plan.finished, FinishedBlocks::kInMemory);
  const int64_t weights = 96 * 12 * int64_t{12288} * 12288;
  EXPECT_EQ(need(plan.host, "codes"), weights / 8 * 3 + weights / 128 * 5);
}

// Blocks that are left to the disk are written whether or not the run may be resumed.
TEST(MemoryPlan, BlocksAreWrittenForResumingOrBecauseMemoryIsShort) {
  MemoryTask task = paper_task();
  task.evaluates = true;
  EXPECT_GT(need(plan_memory(opt_175b(), task, {}).host, "blocks written"), 0);
  task.saves_blocks = false;
  const MemoryPlan unsaved = plan_memory(opt_175b(), task, {});
  EXPECT_EQ(need(unsaved.host, "blocks written"), 0);
  const MemoryPlan tight = plan_memory(opt_175b(), task, {{}, unsaved.host_bytes() - 1});
  EXPECT_EQ(tight.finished, FinishedBlocks::kOnDisk);
  EXPECT_GT(need(tight.host, "blocks written"), 0);
}

// What a shelf on the disk costs: the evaluation reads a block's file and keeps a copy beside it.
TEST(MemoryPlan, BlocksOnDiskComeBackOneAtATime) {
  MemoryTask task = paper_task();
  task.evaluates = true;
  task.group_size = 128;
  task.bits = 3;
  const MemoryPlan roomy = plan_memory(opt_175b(), task, {});
  EXPECT_EQ(need(roomy.host, "block read back"), 0);
  const MemoryPlan tight = plan_memory(opt_175b(), task, {{}, roomy.host_bytes() - 1});
  const int64_t weights = 12 * int64_t{12288} * 12288;
  EXPECT_EQ(need(tight.host, "block read back"), 2 * (weights / 8 * 3 + weights / 128 * 5));
}

// Least is moved out of fast memory, and only what does not fit.
TEST(MemoryPlan, LimitsMoveActivationsToTheHostAndCodesToTheDisk) {
  MemoryTask task = paper_task();
  task.evaluates = true;
  const MemoryPlan roomy = plan_memory(opt_175b(), task, {});
  const MemoryPlan same = plan_memory(opt_175b(), task, {roomy.device_bytes(), roomy.host_bytes()});
  EXPECT_FALSE(same.activations_on_host);
  EXPECT_EQ(same.finished, FinishedBlocks::kInMemory);

  const MemoryPlan tight_device = plan_memory(opt_175b(), task, {roomy.device_bytes() - 1, {}});
  EXPECT_TRUE(tight_device.activations_on_host);
  EXPECT_EQ(roomy.device_bytes() - tight_device.device_bytes(), 6'442'450'944);
  EXPECT_EQ(need(tight_device.host, "activations"), 8 * kGiB) << "8 passes of 768 MiB, in 1 GiB";
  EXPECT_EQ(tight_device.finished, FinishedBlocks::kInMemory);

  MemoryTask sequential = task;
  sequential.true_sequential = true;
  const int64_t all = plan_memory(opt_175b(), sequential, {}).device_bytes();
  // Residuals, and inputs of the hidden and of the inner width: 768 MiB in 1 GiB, 3 GiB in 4.
  EXPECT_EQ(need(plan_memory(opt_175b(), sequential, {all - 1, {}}).host, "activations"),
            8 * (1 + 1 + 4) * kGiB);

  const MemoryPlan tight_host = plan_memory(opt_175b(), task, {{}, roomy.host_bytes() - 1});
  EXPECT_FALSE(tight_host.activations_on_host);
  EXPECT_EQ(tight_host.finished, FinishedBlocks::kOnDisk);
  EXPECT_LT(tight_host.host_bytes(), 17 * kGiB);
  EXPECT_THAT(tight_host.text(), HasSubstr("finished blocks on disk"));
}

TEST(MemoryPlan, WhatCannotFitIsRefusedWithWhatItNeeds) {
  EXPECT_THAT(
      [] {
        plan_memory(opt_175b(), paper_task(), {8 * kGiB, {}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("[limits.device_memory] expected at least "),
                                 HasSubstr("Hessians "), HasSubstr("block 3.38"),
                                 HasSubstr("got 8.00 GiB. "))));
  EXPECT_THAT(
      [] {
        plan_memory(opt_175b(), paper_task(), {{}, kGiB});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("[limits.host_memory] expected at least "),
                                 HasSubstr("next block 6.00"), HasSubstr("got 1.00 GiB"))));
}

// Device memory is host memory there: the sum is held against the smaller limit.
TEST(MemoryPlan, OnTheCpuTheSmallerLimitHolds) {
  MemoryTask task = paper_task();
  task.on_gpu = false;
  const MemoryPlan plan = plan_memory(opt_175b(), task, {});
  EXPECT_TRUE(plan.device.empty());
  EXPECT_EQ(need(plan.host, "activations"), 6'442'450'944);
  EXPECT_THAT(
      [&] {
        plan_memory(opt_175b(), task, {8 * kGiB, 900 * kGiB});
      },
      ThrowsMessage<Error>(HasSubstr("[limits.device_memory]")));
  EXPECT_THAT(
      [&] {
        plan_memory(opt_175b(), task, {900 * kGiB, 8 * kGiB});
      },
      ThrowsMessage<Error>(HasSubstr("[limits.host_memory]")));
}

// Of a model in files the embedding's rows are taken on the host; of a made one it is on the
// device.
TEST(MemoryPlan, PagesOfFilesAreHostMemory) {
  const ModelSizes made = opt_175b();
  ModelSizes mapped = made;
  mapped.mapped = true;
  const MemoryPlan of_made = plan_memory(made, paper_task(), {});
  const MemoryPlan of_files = plan_memory(mapped, paper_task(), {});
  EXPECT_EQ(need(of_made.device, "embedding"), int64_t{50272} * 12288 * 2);
  EXPECT_EQ(need(of_files.device, "embedding"), 0);
  EXPECT_EQ(need(of_made.host, "mapped files"), 0);
  EXPECT_EQ(need(of_files.host, "mapped files"),
            2 * (int64_t{50272} * 12288 + 4 * int64_t{12288} * 12288));
}

// Logits are made window by window, four copies in f32 at most, and in pieces of 2 GiB.
TEST(MemoryPlan, LogitsAreOfOneWindowHoweverManyThereAre) {
  MemoryTask task = paper_task();
  task.evaluates = true;
  task.quantizes = false;
  task.calibration_tokens = 0;
  task.seqlen = 512;
  const int64_t window = int64_t{4} * 512 * 50272 * 4;
  EXPECT_EQ(need(plan_memory(opt_175b(), task, {}).device, "logits"), window);
  task.evaluation_tokens = 100 * 512;
  EXPECT_EQ(need(plan_memory(opt_175b(), task, {}).device, "logits"), window);
  task.seqlen = 4096;
  EXPECT_EQ(need(plan_memory(opt_175b(), task, {}).device, "logits"), 2 * kGiB);
}

// The dense model has no solver, no Hessians and no codes.
TEST(MemoryPlan, ADenseCellNeedsItsBlocksAndWindows) {
  MemoryTask task;
  task.on_gpu = true;
  task.evaluates = true;
  task.evaluation_tokens = 4 * 2048;
  task.evaluation_tokens_per_pass = 2048;
  const MemoryPlan plan = plan_memory(opt_175b(), task, {});
  EXPECT_EQ(need(plan.device, "Hessians") + need(plan.device, "solver"), 0);
  EXPECT_EQ(need(plan.device, "evaluation windows"), int64_t{4} * 2048 * 12288 * 2);
  EXPECT_EQ(need(plan.host, "codes"), 0);
}

}  // namespace
}  // namespace gptqb
