// Cells as jobs of a real Slurm of one node, which each test starts for itself and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "common/atomic_file.h"
#include "runner/child_process.h"
#include "runner/cli.h"
#include "runner/piped_program.h"
#include "runner/record.h"
#include "runner/slurm_client.h"
#include "tests/runner/same_numbers.h"
#include "tests/runner/spawned_program.h"
#include "tests/runner/tiny_sweep.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::run_spawned;
using test::SpawnedProgram;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kSeed = 8;

bool comes_true(const std::function<bool()>& holds, std::chrono::seconds patience = 30s) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PATH", (std::string(std::getenv("PATH")) + ":/usr/sbin").c_str(), 1);
    const ProgramResult started = cluster("start");
    if (WIFEXITED(started.status) && WEXITSTATUS(started.status) == 77)
      GTEST_SKIP() << started.output;
    ASSERT_EQ(ending_text(started.status), "") << started.errors;
    running_ = true;
    ::setenv("SLURM_CONF", (folder_ / "cluster/slurm.conf").c_str(), 1);
    write_file_atomically(folder_ / "sweep.yaml", test::tiny_sweep());
  }
  void TearDown() override {
    if (running_) cluster("stop");
  }

  ProgramResult cluster(const std::string& verb) const {
    return run_captured({"python3", GPTQB_SOURCE_DIR "/tests/support/slurm_cluster.py", verb,
                         (folder_ / "cluster").string()});
  }
  std::vector<std::string> command(const fs::path& output,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"run",        (folder_ / "sweep.yaml").string(),
                                     "--output",   output.string(),
                                     "--executor", "slurm",
                                     "--poll",     "0.2"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string log() const { return (folder_ / "log").string(); }
  std::string printed() const { return read_file(log()); }

  // Processes whose command line has `words` in it.
  static std::vector<pid_t> processes(const std::string& words) {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::string line;
      try {
        std::ifstream file(entry.path() / "cmdline", std::ios::binary);
        line.assign(std::istreambuf_iterator<char>(file), {});
      } catch (const std::exception&) {
        continue;  // it has ended between being listed and read
      }
      std::replace(line.begin(), line.end(), '\0', ' ');
      if (line.find(words) != std::string::npos) found.push_back(std::stoi(name));
    }
    return found;
  }
  // Workers of this test's cluster.
  std::vector<pid_t> workers() const { return processes("worker --run " + folder_.string()); }

  static pid_t parent_of(pid_t child) {
    std::ifstream file("/proc/" + std::to_string(child) + "/status");
    for (std::string word; file >> word;)
      if (pid_t parent = -1; word == "PPid:" && file >> parent) return parent;
    return child;
  }

  static size_t finished(const fs::path& output) {
    size_t count = 0;
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(output / "records", absent))
      count += entry.path().extension() == ".json";
    return count;
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  bool running_ = false;
};

// Issue 8, point 3: a worker's process, the process that watches, a worker again, and at last the
// node with its daemon, the daemon of the job and the job itself.
TEST_F(Slurm, ASweepWithKillsEndsWithTheTablesOfAnUndisturbedOne) {
  ::setenv("OMP_NUM_THREADS", "1", 1);
  const fs::path whole = folder_ / "undisturbed";
  ASSERT_EQ(
      run_spawned({"run", (folder_ / "sweep.yaml").string(), "--output", whole.string()}, log()),
      kExitOk)
      << printed();
  const fs::path output = folder_ / "killed";
  std::mt19937_64 generator(kSeed);
  const auto wait_for_some = [&] {
    const size_t wanted = finished(output) + std::uniform_int_distribution<size_t>(1, 8)(generator);
    return comes_true([&] { return finished(output) >= wanted; });
  };
  // One that has just started: it has not finished its cell yet.
  const auto kill_a_worker = [&] {
    const std::vector<pid_t> before = workers();
    const auto fresh = [&](pid_t pid) {
      return std::count(before.begin(), before.end(), pid) == 0;
    };
    return comes_true([&] {
      const std::vector<pid_t> now = workers();
      const auto found = std::find_if(now.begin(), now.end(), fresh);
      return found != now.end() && ::kill(*found, SIGKILL) == 0;
    });
  };
  {
    SpawnedProgram program(command(output), log());
    ASSERT_TRUE(wait_for_some() && kill_a_worker()) << printed();
    ASSERT_TRUE(wait_for_some() && kill_a_worker()) << printed();
    ASSERT_TRUE(wait_for_some()) << printed();
    program.kill();
  }
  SpawnedProgram program(command(output), log());
  ASSERT_TRUE(wait_for_some() && kill_a_worker()) << printed();
  ASSERT_TRUE(wait_for_some() && comes_true([&] { return !workers().empty(); })) << printed();
  // The node goes down with all that runs on it, and comes back. Slurm starts its jobs anew; that
  // it waits two minutes first is for nodes that break at once, so an administrator ends that wait.
  const std::string conf = (folder_ / "cluster/slurm.conf").string();
  for (const pid_t daemon : processes("slurmd -D -f " + conf)) ::kill(daemon, SIGKILL);
  for (const pid_t worker : workers()) {
    ::kill(parent_of(worker), SIGKILL);  // slurmstepd
    ::kill(worker, SIGKILL);
  }
  ASSERT_EQ(ending_text(cluster("restart-node").status), "");
  std::set<std::string>
      waiting;  // a job is let go two seconds after it was put back: Slurm asks that
  while (program.running()) {
    for (const std::string& job : waiting)
      run_captured({"scontrol", "update", "jobid=" + job, "StartTime=now"});
    waiting.clear();
    for (const slurm::Queued& task : slurm::queue().tasks)
      if (task.reason == "BeginTime") waiting.insert(task.job + "_" + task.task);
    for (int i = 0; i < 25 && program.running(); ++i) std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(program.wait(), kExitOk) << printed();
  EXPECT_EQ(test::numbers_of(output), test::numbers_of(whole));
  for (const char* table : {"results.csv", "layers.csv"})
    EXPECT_EQ(test::untimed(output / table), test::untimed(whole / table)) << table;
  EXPECT_FALSE(fs::exists(output / "work"));
  EXPECT_THAT(printed(), AllOf(HasSubstr("comes back to the jobs of an earlier call"),
                               HasSubstr("it is submitted again")));
  EXPECT_TRUE(comes_true([] { return slurm::queue().tasks.empty(); })) << "nothing is left behind";
}

// Any folder name; Ctrl-C leaves the jobs, which finish and rebuild the tables by themselves; the
// same command then has nothing left to do but look.
TEST_F(Slurm, CtrlCLeavesTheJobsAndTheSameCommandComesBack) {
  const fs::path output = folder_ / "it's 100 % $(touch no) \"mine\"";
  const std::vector<std::string> run =
      command(output, {"--workers", "1", "--set", "quant.bits=3", "--set", "quant.group_size=8",
                       "--set", "executor.extra=[\"--comment=a 'b' $(touch no)\"]"});
  {
    SpawnedProgram program(run, log());
    ASSERT_TRUE(comes_true([&] { return finished(output) >= 1; })) << printed();
    program.signal(SIGINT);
    EXPECT_EQ(program.wait(), kExitInterrupted);
    EXPECT_THAT(printed(), AllOf(HasSubstr("goes on, and the same command comes back to it"),
                                 testing::Not(HasSubstr("cancelled"))));
  }
  fs::remove(output / "table.md");
  ASSERT_TRUE(comes_true([&] { return slurm::queue().tasks.empty(); }));
  EXPECT_EQ(finished(output), 5u);
  EXPECT_TRUE(fs::exists(output / "table.md")) << "the dependent job has rebuilt it";
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  EXPECT_THAT(printed(), HasSubstr("comes back"));
  // Once more from the beginning: what is finished is looked at, in one task.
  ASSERT_EQ(run_spawned(run, log()), kExitOk) << printed();
  EXPECT_THAT(printed(), HasSubstr("5 cells in 1 tasks"));
  EXPECT_EQ(test::numbers_of(output).size(), 5u);
  size_t logs = 0;
  for (const auto& entry : fs::directory_iterator(output / "slurm"))
    logs += entry.path().extension() == ".log" && fs::file_size(entry) > 0;
  EXPECT_GT(logs, 0u);
  EXPECT_FALSE(fs::exists("no"));
}

TEST_F(Slurm, OnRequestCtrlCCancelsTheJobs) {
  const fs::path output = folder_ / "cancelled";
  SpawnedProgram program(command(output, {"--workers", "1", "--cancel-on-interrupt"}), log());
  ASSERT_TRUE(comes_true([&] { return finished(output) >= 1; })) << printed();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), kExitInterrupted);
  EXPECT_THAT(printed(), HasSubstr("Slurm job 1 is cancelled"));
  EXPECT_TRUE(comes_true([&] { return slurm::queue().tasks.empty(); }));
  EXPECT_LT(finished(output), test::kTinySweepCells);
}

// A cell that always takes its job down is given up, with what is known of the end; a refusal of
// sbatch is shown in its own words.
TEST_F(Slurm, TriesAreBoundedAndRefusalsAreShown) {
  const fs::path script = temporary_.write(
      "crash.sh", "echo 'about to crash' > /proc/$PPID/fd/2\nkill -s SEGV $PPID\n");
  write_file_atomically(folder_ / "sweep.yaml",
                        test::sweep_of_script(script.string(), "[external, rtn]"));
  const fs::path output = folder_ / "crash";
  EXPECT_EQ(run_spawned(command(output), log()), kExitFailed) << printed();
  const std::vector<Record> records = load_records(output).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].status, CellStatus::kFailed);
  EXPECT_THAT(records[0].reason,
              AllOf(HasSubstr("the last of 3 tries"), HasSubstr("FAILED, exit code 0:11"),
                    HasSubstr("about to crash")));
  EXPECT_EQ(records[1].status, CellStatus::kOk) << records[1].reason;
  EXPECT_EQ(
      run_spawned(command(folder_ / "refused", {"--set", "executor.partition=nosuch"}), log()),
      kExitBadInput);
  EXPECT_THAT(printed(), AllOf(HasSubstr("[sbatch] expected a job's id, got exit status 1"),
                               HasSubstr("invalid partition specified: nosuch")));
}

}  // namespace
}  // namespace gptqb
