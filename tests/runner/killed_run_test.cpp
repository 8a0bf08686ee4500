// Faults EH-07: a run that was killed goes on and ends as if nothing had happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "common/atomic_file.h"
#include "common/text.h"
#include "runner/cli.h"
#include "runner/record.h"
#include "tests/runner/same_numbers.h"
#include "tests/runner/spawned_program.h"
#include "tests/support/solve.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using test::run_spawned;
using test::SpawnedProgram;

constexpr int kKills = 20;
constexpr uint64_t kSeed = 20;

// All stages, both kinds of windows, held-out errors, and an evaluation behind the last block.
constexpr const char* kExperiment =
    "name: killed\n"
    "model: {synthetic: {architecture: llama, hidden_size: 64, intermediate_size: 192, heads: 4, "
    "layers: 16, vocab_size: 200}, dtype: float32}\n"
    "calibration: {dataset: random, samples: 8, seqlen: 64, heldout: 2}\n"
    "quant: {bits: 3, group_size: 32}\n"
    "method: {name: gptq, act_order: true, true_sequential: true}\n"
    "evaluate:\n"
    "  - perplexity: {datasets: [random], seqlen: 64, max_windows: 4}\n";

class KilledRun : public testing::Test {
 protected:
  void SetUp() override { write_file_atomically(folder_ / "experiment.yaml", kExperiment); }

  // On the device that GPTQ_BENCH_TEST_DEVICE names.
  std::vector<std::string> command(const fs::path& output) const {
    return {"run",      (folder_ / "experiment.yaml").string(), "--output", output.string(),
            "--device", test::device_under_test().str()};
  }
  std::string log() const { return (folder_ / "log").string(); }

  static std::string numbers(const fs::path& output) {
    const std::vector<std::string> all = test::numbers_of(output);
    EXPECT_EQ(all.size(), 1u);
    return join(all, "\n");
  }
  static std::string layers(const fs::path& output) { return test::untimed(output / "layers.csv"); }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(KilledRun, GoesOnFromAnyMomentToTheSameBytes) {
  const fs::path whole = folder_ / "whole";
  ASSERT_EQ(run_spawned(command(whole), log()), kExitOk) << read_file(log());
  const std::string numbers_expected = numbers(whole);
  const std::string layers_expected = layers(whole);
  ASSERT_THAT(layers_expected, testing::HasSubstr("model.layers.15.mlp.down_proj,gptq,3,32"));

  // From the first file it writes to its end.
  const auto appears = [](const fs::path& output, SpawnedProgram& program) {
    while (program.running() && !fs::exists(output))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return steady_clock::now();
  };
  double duration = 0;
  {
    const fs::path timed = folder_ / "timed";
    SpawnedProgram program(command(timed), log());
    const auto start = appears(timed, program);
    ASSERT_EQ(program.wait(), kExitOk);
    duration = std::chrono::duration<double>(steady_clock::now() - start).count();
    EXPECT_EQ(numbers(timed), numbers_expected);
  }

  std::mt19937_64 generator(kSeed);
  int64_t resumed = 0;
  for (int i = 0; i < kKills; ++i) {
    const fs::path output = folder_ / ("killed" + std::to_string(i));
    const double moment = duration * std::uniform_real_distribution<double>(0, 1)(generator);
    {
      SpawnedProgram program(command(output), log());
      const auto start = appears(output, program);
      std::this_thread::sleep_until(start + std::chrono::duration_cast<steady_clock::duration>(
                                                std::chrono::duration<double>(moment)));
      program.kill();
    }
    const std::string when = "killed " + std::to_string(moment) + " s after its first file";
    ASSERT_EQ(run_spawned(command(output), log()), kExitOk) << when << '\n' << read_file(log());
    EXPECT_EQ(numbers(output), numbers_expected) << when;
    EXPECT_EQ(layers(output), layers_expected) << when;
    EXPECT_FALSE(fs::exists(output / "work")) << when;
    resumed += load_records(output).records.at(0).resumed_blocks;
    fs::remove_all(output);
  }
  EXPECT_GT(resumed, 0) << "no kill fell between two blocks";
}

}  // namespace
}  // namespace gptqb
