// Cells in several processes on one machine: the same tables, whoever is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "common/atomic_file.h"
#include "runner/cli.h"
#include "runner/record.h"
#include "runner/slurm_run.h"
#include "tests/runner/run_program.h"
#include "tests/runner/same_numbers.h"
#include "tests/runner/spawned_program.h"
#include "tests/runner/tiny_sweep.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using test::run_spawned;
using test::SpawnedProgram;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kSeed = 5;

size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

class Workers : public testing::Test {
 protected:
  void SetUp() override { write_file_atomically(folder_ / "sweep.yaml", test::tiny_sweep()); }

  std::vector<std::string> command(const fs::path& output,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"run", (folder_ / "sweep.yaml").string(), "--output",
                                     output.string()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string log(const std::string& name = "log") const { return (folder_ / name).string(); }
  std::string printed(const std::string& name = "log") const { return read_file(log(name)); }

  // One process that nothing disturbs.
  fs::path undisturbed() {
    const fs::path output = folder_ / "undisturbed";
    EXPECT_EQ(run_spawned(command(output), log()), kExitOk) << printed();
    EXPECT_EQ(load_records(output).records.size(), test::kTinySweepCells);
    return output;
  }
  static void expect_same(const fs::path& output, const fs::path& expected) {
    EXPECT_EQ(test::numbers_of(output), test::numbers_of(expected));
    for (const char* table : {"results.csv", "layers.csv"})
      EXPECT_EQ(test::untimed(output / table), test::untimed(expected / table)) << table;
    EXPECT_FALSE(fs::exists(output / "work"));
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// Issue 8, point 3. Four times everything is killed, once a worker alone: what it worked on is then
// a failed cell, which the next run makes good.
TEST_F(Workers, ASweepKilledFiveTimesEndsWithTheTablesOfAnUndisturbedOne) {
  const fs::path whole = undisturbed(), output = folder_ / "killed";
  const std::vector<std::string> run = command(output, {"--workers", "2"});
  std::mt19937_64 generator(kSeed);
  int killed_at_work = 0;
  for (int i = 0; i < 4; ++i) {
    SpawnedProgram program(run, log());
    // Anywhere in the next few cells, so that all five fall into the sweep.
    const size_t before = load_records(output).records.size();
    const size_t wanted = before + std::uniform_int_distribution<size_t>(0, 12)(generator);
    while (program.running() && load_records(output).records.size() < wanted)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    killed_at_work += program.running();
    program.kill();
  }
  EXPECT_EQ(killed_at_work, 4);
  EXPECT_LT(load_records(output).records.size(), test::kTinySweepCells);
  {
    SpawnedProgram program(run, log());
    while (program.running() && children_of(program.pid()).size() < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // At any of its cells, those that are kept among them.
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const std::vector<pid_t> workers = children_of(program.pid());
    ASSERT_FALSE(workers.empty()) << printed();
    ::kill(workers.front(), SIGKILL);
    const int code = program.wait();
    EXPECT_TRUE(code == kExitFailed || code == kExitOk) << printed();
  }
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  expect_same(output, whole);
}

// Several shards at once in one folder; and twice the same run, which then share the cells.
TEST_F(Workers, RunsSideBySideInOneFolderDoEachCellOnce) {
  const fs::path whole = undisturbed(), output = folder_ / "shared";
  {
    SpawnedProgram first(command(output, {"--shard", "0/2"}), log("0"));
    SpawnedProgram second(command(output, {"--shard", "1/2"}), log("1"));
    EXPECT_EQ(first.wait(), kExitOk) << printed("0");
    EXPECT_EQ(second.wait(), kExitOk) << printed("1");
  }
  EXPECT_EQ(count_of(printed("0") + printed("1"), "kept from an earlier run"), 0u);
  expect_same(output, whole);

  const fs::path twice = folder_ / "twice";
  {
    SpawnedProgram first(command(twice), log("0"));
    SpawnedProgram second(command(twice, {"--workers", "2"}), log("1"));
    EXPECT_EQ(first.wait(), kExitOk) << printed("0");
    EXPECT_EQ(second.wait(), kExitOk) << printed("1");
  }
  // Each of the two runs accounts for each cell: one ran it, the other found it finished.
  EXPECT_EQ(count_of(printed("0") + printed("1"), "kept from an earlier run"),
            test::kTinySweepCells);
  expect_same(twice, whole);
}

// Cached by content: what the file says now decides, and only what is new is run.
TEST_F(Workers, AnEditedFileRunsOnlyWhatChanged) {
  const fs::path output = folder_ / "edited";
  const std::vector<std::string> run = command(output, {"--workers", "2"});
  const std::string small =
      "name: sweep\n"
      "model: {synthetic: {architecture: llama, hidden_size: 32, intermediate_size: 64, heads: 2, "
      "layers: 1, vocab_size: 100}, dtype: float32}\n"
      "method: {name: rtn}\n"
      "quant: {group_size: 8}\n";
  write_file_atomically(folder_ / "sweep.yaml", small + "sweep: {quant.bits: [2, 3]}\n");
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  EXPECT_EQ(count_of(printed(), "kept from an earlier run"), 0u);
  write_file_atomically(folder_ / "sweep.yaml",
                        small + "sweep: {quant.bits: [4, 2, 3, 8]}\nexclude: [{quant.bits: 3}]\n");
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  EXPECT_EQ(count_of(printed(), "kept from an earlier run"), 1u) << printed();
  EXPECT_EQ(load_records(output).records.size(), 4u) << "the excluded cell's record stays";
  ASSERT_EQ(run_spawned(command(output, {"--workers", "2", "--fresh"}), log()), kExitOk);
  EXPECT_EQ(count_of(printed(), "kept from an earlier run"), 0u);
}

// A cell that takes its process down: its record says how, others are done.
TEST_F(Workers, ACrashIsTheFailureOfOneCell) {
  const fs::path script = temporary_.write(
      "crash.sh", "echo 'about to crash' > /proc/$PPID/fd/2\nkill -s $SIGNAL_OF_CELL $PPID\n");
  const fs::path output = folder_ / "crash";
  write_file_atomically(folder_ / "sweep.yaml",
                        test::sweep_of_script(script.string(), "[external, none, rtn, gptq]"));
  const std::vector<std::pair<std::string, std::string>> signals = {
      {"SEGV", "signal 11 (Segmentation fault). The end of what it printed: about to crash"},
      {"KILL", "signal 9 (Killed). The system kills so where memory runs out"}};
  for (const auto& [name, words] : signals) {
    ::setenv("SIGNAL_OF_CELL", name.c_str(), 1);
    EXPECT_EQ(run_spawned(command(output, {"--workers", "1"}), log()), kExitFailed) << printed();
    const std::vector<Record> records = load_records(output).records;
    ASSERT_EQ(records.size(), 4u);
    EXPECT_EQ(records[0].status, CellStatus::kFailed);
    EXPECT_THAT(records[0].reason, HasSubstr(words));
    for (size_t i = 1; i < 4; ++i)
      EXPECT_EQ(records[i].status, CellStatus::kOk) << records[i].reason;
    EXPECT_THAT(read_file(output / "table.md"), HasSubstr(words.substr(0, 9)));
  }
}

// Ctrl-C reaches all, what is finished is kept and in the tables, and nobody is left.
TEST_F(Workers, AnInterruptStopsAllAndKeepsTheirState) {
  const fs::path whole = undisturbed(), output = folder_ / "interrupted";
  const std::vector<std::string> run = command(output, {"--workers", "2"});
  {
    SpawnedProgram program(run, log());
    while (program.running() && load_records(output).records.size() < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::vector<pid_t> workers = children_of(program.pid());
    EXPECT_EQ(workers.size(), 2u);
    program.signal(SIGINT);
    EXPECT_EQ(program.wait(), kExitInterrupted) << printed();
    for (const pid_t worker : workers) EXPECT_NE(::kill(worker, 0), 0) << "worker " << worker;
  }
  EXPECT_THAT(printed(), HasSubstr("run the same command again to resume"));
  const size_t finished = load_records(output).records.size();
  EXPECT_GE(finished, 3u);
  EXPECT_LT(finished, test::kTinySweepCells);
  EXPECT_TRUE(fs::exists(output / "table.md"));
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  EXPECT_EQ(count_of(printed(), "kept from an earlier run"), finished);
  expect_same(output, whole);
}

// Slurm may start a task a second time while the first still runs.
TEST_F(Workers, ATaskThatRunsTwiceAtOnceDoesItsCellsOnce) {
  Job job;
  job.plan = make_plan(
      parse_experiments("name: twins\n"
                        "model: {synthetic: {architecture: llama, hidden_size: 32, "
                        "intermediate_size: 64, heads: 2, layers: 1, vocab_size: 100}, dtype: "
                        "float32}\n"
                        "method: {name: rtn}\n"
                        "quant: {group_size: 8}\n"
                        "sweep: {quant.bits: [2, 3, 4, 8]}\n",
                        "twins.yaml")
          .at(0),
      {.methods = {"rtn"}, .evaluators = {}});
  job.output = folder_ / "twins";
  const SlurmRun run = SlurmRun::of(job);
  EXPECT_FALSE(run.exists());
  run.create(job);
  run.save({.submissions = {{"1", {{0, 1, 2, 3}}}}, .trials = {{}, {}, {}, {}}});
  EXPECT_TRUE(run.exists());
  const std::vector<std::string> task = {
      "worker", "--run", run.folder().string(), "--submission", "0", "--task", "0"};
  {
    SpawnedProgram first(task, log("0")), second(task, log("1"));
    EXPECT_EQ(first.wait(), kExitOk) << printed("0");
    EXPECT_EQ(second.wait(), kExitOk) << printed("1");
  }
  const std::string both = printed("0") + printed("1");
  EXPECT_EQ(count_of(both, "/4] rtn") - count_of(both, "kept from an earlier run"), 4u) << both;
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(run.outcome(i).has_value()) << i;
  EXPECT_EQ(load_records(job.output).records.size(), 4u);
  EXPECT_EQ(run_spawned({"worker", "--run", run.folder().string(), "--task", "1"}, log()),
            kExitBadInput);
  EXPECT_THAT(printed(), HasSubstr("expected task 1, got 1 of them"));
}

TEST_F(Workers, WhatCannotBeIsSaid) {
  const auto refused = [&](const std::vector<std::string>& more) {
    const test::Outcome outcome = test::run_program(command(folder_ / "no", more));
    EXPECT_EQ(outcome.code, kExitBadInput);
    return outcome.err;
  };
  EXPECT_THAT(refused({"--executor", "slrm"}), AllOf(HasSubstr("local"), HasSubstr("slurm")));
  EXPECT_THAT(refused({"--workers", "0"}), HasSubstr("--workers"));
  EXPECT_THAT(refused({"--shard", "2/2"}), HasSubstr("expected I/N"));
}

}  // namespace
}  // namespace gptqb
