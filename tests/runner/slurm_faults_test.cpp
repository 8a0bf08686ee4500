// Slurm that does not answer, or says what a real one of one node says only after minutes: scripts
// in place of its programs, which print what those of Slurm 22.05 print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "common/atomic_file.h"
#include "runner/cli.h"
#include "runner/record.h"
#include "tests/runner/spawned_program.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::run_spawned;
using test::SpawnedProgram;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kExperiment =
    "name: small\n"
    "model: {synthetic: {architecture: llama, hidden_size: 32, intermediate_size: 64, heads: 2, "
    "layers: 1, vocab_size: 100}, dtype: float32}\n"
    "calibration: {dataset: random, samples: 2, seqlen: 16}\n"
    "quant: {group_size: 8}\n"
    "sweep: {method.name: [rtn]}\n";

size_t occurrences(const std::string& text, const std::string& words) {
  size_t count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++count;
  return count;
}

// Programs that keep what they know in one folder: `down` is there while no controller answers,
// `queue` is what squeue prints, `calls` has a line for each call, `state` is how tasks end.
class SlurmFaults : public testing::Test {
 protected:
  void SetUp() override {
    program("squeue",
            "[ -e down ] && { echo 'slurm_load_jobs error: Unable to contact slurm controller "
            "(connect failure)' >&2; exit 1; }\n"
            "[ -e slow ] && sleep 0.5\n"
            "cat queue 2>/dev/null || true\n");
    program("sbatch",
            "[ -e down ] && { echo 'sbatch: error: Batch job submission failed: Unable to contact "
            "slurm controller (connect failure)' >&2; exit 1; }\n"
            "id=$((70 + $(grep -c ^sbatch calls)))\n"
            "for word; do case $word in\n"
            "  --job-name=*) name=${word#*=};;\n"
            "  --array=*) task=0;;\n"
            "esac; done\n"
            "[ -e ends_at_once ] || echo \"$id|${task:-N/A}|RUNNING|None|$name\" >>queue\n"
            "echo $id\n");
    program("scancel",
            "[ -e down ] && { echo \"scancel: error: Kill job error on job id $1: Unable to "
            "contact slurm controller (connect failure)\" >&2; exit 1; }\n"
            "rm -f queue\n");
    program("scontrol", "echo \"JobId=70 JobName=x JobState=$(cat state) ExitCode=0:15 \"\n");
    ::setenv("PATH", ((folder_ / "bin").string() + ":" + old_path_).c_str(), 1);
    write_file_atomically(folder_ / "small.yaml", kExperiment);
  }
  void TearDown() override { ::setenv("PATH", old_path_.c_str(), 1); }

  void program(const std::string& name, const std::string& text) const {
    const fs::path path =
        temporary_.write("bin/" + name, "#!/bin/sh\ncd '" + folder_.string() + "'\necho \"" + name +
                                            " $*\" >>calls\n" + text);
    ::chmod(path.c_str(), 0755);
  }
  void mark(const char* name, const std::string& text = "") const {
    write_file_atomically(folder_ / name, text);
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {},
                                   const std::string& poll = "0.1") const {
    std::vector<std::string> args = {"run",        (folder_ / "small.yaml").string(),
                                     "--output",   (folder_ / "out").string(),
                                     "--executor", "slurm",
                                     "--poll",     poll};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string log() const { return (folder_ / "log").string(); }
  std::string printed() const { return read_file(log()); }
  std::string calls() const { return read_file(folder_ / "calls"); }
  bool comes_true(const std::function<bool()>& holds) const {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(20ms);
    return holds();
  }
  bool prints(const std::string& words) const {
    return comes_true([&] { return printed().find(words) != std::string::npos; });
  }
  // Ends it if it has not ended by itself: -1 then.
  int ended(SpawnedProgram& program) const {
    if (!comes_true([&] { return !program.running(); })) program.kill();
    return program.wait();
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const std::string old_path_ = std::getenv("PATH");
};

TEST_F(SlurmFaults, AClusterThatCannotBeAskedIsOneErrorIfNothingWasSubmitted) {
  mark("down");
  SpawnedProgram program(command(), log());
  EXPECT_EQ(ended(program), kExitBadInput) << printed();
  EXPECT_EQ(occurrences(calls(), "squeue"), 3u);
  EXPECT_THAT(calls(), Not(HasSubstr("sbatch")));
  EXPECT_THAT(printed(),
              AllOf(HasSubstr("[squeue] expected an answer from Slurm, got exit status 1: "
                              "slurm_load_jobs error: Unable to contact slurm controller"),
                    HasSubstr("3 times"), HasSubstr("Nothing was submitted"),
                    HasSubstr("scontrol ping"), HasSubstr("--executor local")));
  fs::remove(folder_ / "down");
  mark("state", "COMPLETED");
  // What that call left keeps no later one from beginning.
  SpawnedProgram later(command(), log());
  EXPECT_TRUE(prints("Slurm job 71: 1 cells in 1 tasks")) << printed();
  EXPECT_THAT(printed(), Not(HasSubstr("comes back")));
}

TEST_F(SlurmFaults, FreshAsksBeforeItSetsRecordsAside) {
  ASSERT_EQ(run_spawned(
                {"run", (folder_ / "small.yaml").string(), "--output", (folder_ / "out").string()},
                log()),
            kExitOk);
  const size_t records = load_records(folder_ / "out").records.size();
  mark("down");
  SpawnedProgram program(command({"--fresh"}), log());
  EXPECT_EQ(ended(program), kExitBadInput) << printed();
  EXPECT_EQ(load_records(folder_ / "out").records.size(), records);
}

TEST_F(SlurmFaults, JobsThatWereSubmittedAreWaitedForWhileTheControllerIsAway) {
  SpawnedProgram program(command(), log());
  ASSERT_TRUE(prints("1 running")) << printed();
  mark("down");
  ASSERT_TRUE(comes_true([&] {
    return occurrences(calls(), "squeue") >= 8 && occurrences(printed(), "cannot be asked") > 0;
  })) << printed();
  EXPECT_EQ(occurrences(printed(), "cannot be asked"), 1u) << printed();
  EXPECT_TRUE(program.running());
  // It comes back, and goes once more: each is told.
  fs::remove(folder_ / "down");
  ASSERT_TRUE(prints("Slurm answers again")) << printed();
  mark("down");
  ASSERT_TRUE(comes_true([&] { return occurrences(printed(), "cannot be asked") == 2; }))
      << printed();
  program.signal(SIGINT);
  EXPECT_EQ(ended(program), kExitInterrupted);
  EXPECT_THAT(printed(), AllOf(HasSubstr("Slurm job 71 goes on"), Not(HasSubstr("none"))));
  // The same command finds it again.
  fs::remove(folder_ / "down");
  SpawnedProgram again(command(), log());
  EXPECT_TRUE(prints("comes back to the jobs of an earlier call: 71")) << printed();
}

// Jobs that could not be cancelled are not forgotten.
TEST_F(SlurmFaults, CancellingWithoutAnAnswerSaysSoAndKeepsTheRun) {
  {
    SpawnedProgram program(command({"--cancel-on-interrupt"}), log());
    ASSERT_TRUE(prints("1 running")) << printed();
    mark("down");
    ASSERT_TRUE(prints("cannot be asked")) << printed();
    program.signal(SIGINT);
    EXPECT_EQ(ended(program), kExitInterrupted);
  }
  EXPECT_THAT(calls(), HasSubstr("scancel 71"));
  EXPECT_THAT(printed(),
              AllOf(HasSubstr("expected to cancel Slurm job 71, got scancel: error: Kill job error "
                              "on job id 71: Unable to contact slurm controller"),
                    HasSubstr("scancel 71"), Not(HasSubstr("cancelled"))));
  fs::remove(folder_ / "down");
  SpawnedProgram again(command({"--cancel-on-interrupt"}), log());
  ASSERT_TRUE(prints("comes back to the jobs of an earlier call: 71")) << printed();
  ASSERT_TRUE(prints("1 running")) << printed();
  again.signal(SIGINT);
  EXPECT_EQ(ended(again), kExitInterrupted);
  EXPECT_THAT(printed(), HasSubstr("Slurm job 71 is cancelled"));
  EXPECT_FALSE(fs::exists(folder_ / "queue"));
}

TEST_F(SlurmFaults, CtrlCBeforeAnythingWasSubmittedSaysSo) {
  mark("down");
  SpawnedProgram program(command({}, "30"), log());
  ASSERT_TRUE(prints("cannot be asked")) << printed();
  program.signal(SIGINT);
  EXPECT_EQ(ended(program), kExitInterrupted);
  EXPECT_THAT(printed(),
              AllOf(HasSubstr("no Slurm job was submitted"), Not(HasSubstr("comes back"))));
}

// The second one may come while the first has not been seen: squeue is being asked.
TEST_F(SlurmFaults, ASecondCtrlCCancelsWhatIsInTheQueue) {
  for (const bool at_once : {false, true}) {
    std::error_code absent;
    fs::remove(folder_ / "calls", absent);
    SpawnedProgram program(command(), log());
    ASSERT_TRUE(prints("1 running")) << printed();
    if (at_once) {
      mark("slow");
      const size_t before = occurrences(calls(), "squeue");
      ASSERT_TRUE(comes_true([&] { return occurrences(calls(), "squeue") >= before + 2; }));
    }
    program.signal(SIGINT);
    if (at_once)
      std::this_thread::sleep_for(50ms);
    else
      ASSERT_TRUE(prints("Ctrl-C again within 3 seconds cancels it")) << printed();
    program.signal(SIGINT);
    EXPECT_EQ(ended(program), kExitInterrupted);
    EXPECT_THAT(printed(), HasSubstr("Slurm job 71 is cancelled"));
    EXPECT_THAT(calls(), HasSubstr("scancel 71 72"));  // and the one that rebuilds the tables
  }
}

// Slurm's word for the end, here of tasks that always run into their limit.
TEST_F(SlurmFaults, ATaskWithoutHeadwayAtItsTimeLimitFailsWithThatReason) {
  mark("ends_at_once");
  mark("state", "TIMEOUT");
  EXPECT_EQ(run_spawned(command({"--set", "executor.time=00:01:00"}), log()), kExitFailed);
  EXPECT_THAT(calls(), HasSubstr("--time=00:01:00"));
  const std::vector<Record> records = load_records(folder_ / "out").records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].status, CellStatus::kFailed);
  EXPECT_THAT(records[0].reason,
              AllOf(HasSubstr("ended (TIMEOUT, exit code 0:15) without a record"),
                    HasSubstr("the last of 3 tries without headway"),
                    HasSubstr("executor.time (00:01:00)")));
  EXPECT_EQ(occurrences(calls(), "--array="), 3u);
}

}  // namespace
}  // namespace gptqb
