// worker: the other end of `--workers` and of `--executor slurm`. No user calls it.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/atomic_file.h"
#include "common/error.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/environment.h"
#include "runner/job.h"
#include "runner/slurm_run.h"
#include "runner/terminal_progress.h"
#include "runner/worker_words.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

// The pipe to the process that hands out cells, taken from stdout: what a library prints goes to
// stderr.
class Mouth {
 public:
  Mouth() : descriptor_(::dup(STDOUT_FILENO)) { ::dup2(STDERR_FILENO, STDOUT_FILENO); }
  ~Mouth() { ::close(descriptor_); }
  Mouth(const Mouth&) = delete;
  Mouth& operator=(const Mouth&) = delete;

  void say(const Json& words) const {
    const std::string line = words.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count = ::write(descriptor_, line.data() + sent, line.size() - sent);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw Interrupted();  // nobody listens any more
      sent += static_cast<size_t>(count);
    }
  }

 private:
  int descriptor_;
};

class SpokenProgress : public Progress {
 public:
  explicit SpokenProgress(const Mouth& mouth) : mouth_(mouth) {}
  void begin(const std::string&, int64_t) override {}
  void advance(int64_t) override {}
  void note(const std::string& line) override { mouth_.say({worker_words::kNote, line}); }

 private:
  const Mouth& mouth_;
};

// The number behind `word`; Interrupted if the line is missing: who handed out cells is gone.
int64_t heard(const std::string& word) {
  std::string line;
  if (!std::getline(std::cin, line)) throw Interrupted();
  if (!line.starts_with(word))
    throw Error("worker", "expected '" + word + "N', got '" + line + "'");
  return std::stoll(line.substr(word.size()));
}

void serve(pid_t parent) {
  // Who is killed takes its workers along; what they keep on disk is whole at any moment.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return;
  const Mouth mouth;
  SpokenProgress progress(mouth);
  std::string line;
  if (!std::getline(std::cin, line)) return;
  const Job job = job_from_json(line, "worker");
  RunOptions options = run_options(job);
  options.progress = &progress;
  options.admit = [&](int64_t host_bytes) {
    mouth.say({worker_words::kNeed, host_bytes, resident_bytes()});
    return heard(worker_words::kGo);
  };
  const std::unique_ptr<CellRunner> runner = make_cell_runner(job.plan, options);
  while (std::cin.peek() != std::istream::traits_type::eof()) {
    const int64_t index = heard(worker_words::kRun);
    const std::optional<CellResult> result = runner->run(static_cast<size_t>(index));
    if (result)
      mouth.say({worker_words::kDone, index, outcome_name(result->outcome)});
    else
      mouth.say({worker_words::kBusy, index});
  }
}

// A task of a Slurm array: its cells one after another. It may be a second start of the same task,
// beside the first.
void run_task(const WorkerCommandOptions& options, std::ostream& err) {
  const SlurmRun run(options.run);
  const Job job = run.job();
  TerminalProgress progress(err, false);
  RunOptions run_options = gptqb::run_options(job);
  check_device(run_options.device);
  run_options.progress = &progress;
  const std::unique_ptr<CellRunner> runner = make_cell_runner(job.plan, run_options);
  for (const size_t index : run.cells_of_task(options.submission, options.task)) {
    while (!run.outcome(index)) {
      if (const std::optional<CellResult> result = runner->run(index))
        run.set_outcome(index, result->outcome);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }
}

}  // namespace

int worker_command(const WorkerCommandOptions& options, std::ostream& err) {
  if (options.run.empty())
    serve(static_cast<pid_t>(options.parent));
  else
    run_task(options, err);
  return kExitOk;
}

}  // namespace gptqb
