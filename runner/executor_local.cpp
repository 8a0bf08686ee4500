// Cells on this machine. With workers, each is a process that takes one cell after another: a crash
// is the failure of one cell, and what cells share is made once a worker.
#include <ATen/Parallel.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/error.h"
#include "kernels/device_info.h"
#include "runner/admission.h"
#include "runner/child_process.h"
#include "runner/environment.h"
#include "runner/executor.h"
#include "runner/piped_program.h"
#include "runner/text_tail.h"
#include "runner/worker_words.h"

namespace gptqb {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kTailBytes = 600;  // of what a crashed worker printed, for its record
constexpr std::chrono::milliseconds kPoll{100};

struct Worker {
  std::map<std::string, std::string> environment;
  std::unique_ptr<PipedProgram> program;  // null: not started, or ended
  std::optional<size_t> cell;             // at work on it
  LineBuffer said;
  LineBuffer printed;
  std::string tail;
};

std::string comma_part(const std::string& list, size_t index) {
  size_t start = 0;
  for (; index > 0 && start != std::string::npos; --index) {
    start = list.find(',', start);
    if (start != std::string::npos) ++start;
  }
  return start == std::string::npos ? "" : list.substr(start, list.find(',', start) - start);
}

// Each GPU worker sees one GPU, its cuda:0: which of several equal ones a cell ran on is no part of
// its result.
std::string visible_gpu(size_t index) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? std::to_string(index) : comma_part(visible, index);
}

bool on_gpu(const Job& job) { return job.device != "cpu"; }

// How many can work at once, and why not as many as were asked for.
int64_t worker_count(const Job& job, Progress& progress) {
  const int64_t wanted = *job.plan.executor.workers;
  if (job.device.starts_with("cuda:") && wanted > 1)
    throw Error("--device",
                "expected cuda beside several workers, each of which takes a GPU, got '" +
                    job.device + "'. CUDA_VISIBLE_DEVICES says which GPUs there are");
  const int64_t most = on_gpu(job) ? static_cast<int64_t>(kernels::cuda_info().devices.size())
                                   : capture_environment("cpu", {}).cores;
  if (wanted > most)
    progress.note(std::to_string(wanted) + " workers were asked for, " + std::to_string(most) +
                  " work: one a " + (on_gpu(job) ? "GPU" : "core"));
  const auto cells = static_cast<int64_t>(job.plan.cells.size());
  return std::max<int64_t>(1, std::min({wanted, most, cells}));
}

// Whatever is smaller holds for the sum on the CPU, as in plan_memory().
std::optional<int64_t> host_limit(const Job& job) {
  const MemoryLimits limits = run_options(job).limits;
  if (on_gpu(job) || !limits.device) return limits.host;
  return limits.host ? std::min(*limits.host, *limits.device) : *limits.device;
}

class Pool {
 public:
  Pool(const Job& job, Progress& progress)
      : job_(job),
        options_(run_options(job)),
        progress_(progress),
        workers_(static_cast<size_t>(worker_count(job, progress))),
        admission_(workers_.size(), host_limit(job)) {
    options_.progress = &progress;
    const int64_t cores = capture_environment("cpu", {}).cores;
    const auto count = static_cast<int64_t>(workers_.size());
    const int64_t threads =
        std::clamp<int64_t>(cores / count, 1, std::max(1, at::get_num_threads()));
    for (size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].environment["OMP_NUM_THREADS"] = std::to_string(threads);
      // One worker may be sent to a GPU by its number.
      if (job.device == "cuda") workers_[i].environment["CUDA_VISIBLE_DEVICES"] = visible_gpu(i);
    }
    for (size_t i = 0; i < job.plan.cells.size(); ++i) waiting_.push_back(i);
  }

  RunOutcome run() {
    const auto cells = static_cast<int64_t>(job_.plan.cells.size());
    progress_.begin("cells of " + job_.plan.name, cells);
    while (finished_ < cells) {
      if (interrupt_requested()) {
        stop();
        throw Interrupted();
      }
      hand_out();
      listen();
    }
    stop();
    outcome_.records = records_of(job_);
    return std::move(outcome_);
  }

 private:
  void start(Worker& worker) {
    worker.said = worker.printed = {};
    worker.tail.clear();
    worker.program = std::make_unique<PipedProgram>(
        std::vector<std::string>{program_path(), "worker", "--parent", std::to_string(::getpid())},
        worker.environment);
    worker.program->say(job_to_json(job_));
  }

  void hand_out() {
    for (Worker& worker : workers_) {
      if (worker.cell || waiting_.empty() || Clock::now() < look_again_) continue;
      if (!worker.program) start(worker);
      worker.cell = waiting_.front();
      waiting_.pop_front();
      worker.program->say(worker_words::kRun + std::to_string(*worker.cell));
    }
  }

  // Waits for news of any worker, for a moment.
  void listen() {
    std::vector<pollfd> news;
    for (const Worker& worker : workers_) {
      if (!worker.program) continue;
      news.push_back({worker.program->output(), POLLIN, 0});
      news.push_back({worker.program->errors(), POLLIN, 0});
    }
    ::poll(news.data(), news.size(), static_cast<int>(kPoll.count()));
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (!worker.program) continue;
      // Asked first: what it said before its end is read then.
      const std::optional<int> status = worker.program->ended();
      hear(i);
      if (status) bury(i, *status);
    }
    grant();
  }

  void hear(size_t index) {
    Worker& worker = workers_[index];
    worker.printed.add(PipedProgram::read_available(worker.program->errors()));
    while (const std::optional<std::string> line = worker.printed.next()) {
      progress_.note(*line);
      worker.tail += *line + '\n';
      if (worker.tail.size() > 2 * kTailBytes)
        worker.tail.erase(0, worker.tail.size() - 2 * kTailBytes);
    }
    worker.said.add(PipedProgram::read_available(worker.program->output()));
    while (const std::optional<std::string> line = worker.said.next()) obey(index, *line);
  }

  void obey(size_t index, const std::string& line) {
    Worker& worker = workers_[index];
    const auto words = nlohmann::json::parse(line);
    const std::string verb = words.at(0);
    if (verb == worker_words::kNote) {
      progress_.note(words.at(1).get<std::string>());
    } else if (verb == worker_words::kNeed) {
      admission_.ask(index, words.at(1).get<int64_t>(), words.at(2).get<int64_t>());
    } else if (verb == worker_words::kDone) {
      admission_.leave(index);
      worker.cell.reset();
      finish(*outcome_of(words.at(2).get<std::string>()));
    } else {
      admission_.leave(index);
      put_back(worker);
    }
  }

  void finish(CellOutcome outcome) {
    outcome_.count(outcome);
    put_back_ = 0;
    ++finished_;
    progress_.advance();
  }

  // Another run is at the cell: it comes last, and not at once.
  void put_back(Worker& worker) {
    waiting_.push_back(*worker.cell);
    worker.cell.reset();
    if (waiting_.size() == 1 || ++put_back_ >= static_cast<int64_t>(waiting_.size())) {
      look_again_ = Clock::now() + kPoll;
      put_back_ = 0;
    }
  }

  void grant() {
    while (const std::optional<Admission::Grant> grant = admission_.next())
      workers_[grant->who].program->say(worker_words::kGo + std::to_string(grant->bytes));
  }

  // A worker has ended. If it was at a cell, that cell failed.
  void bury(size_t index, int status) {
    Worker& worker = workers_[index];
    if (!worker.printed.rest().empty()) worker.tail += worker.printed.rest();
    worker.program.reset();
    admission_.end(index);
    if (!worker.cell) return;
    std::string reason = "expected its process to end by itself, got ";
    reason += ending_text(status).empty() ? "an end without a record" : ending_text(status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      reason += ". The system kills so where memory runs out";
    const std::string tail = one_line_tail(worker.tail, kTailBytes);
    reason += tail.empty() ? ". It printed nothing" : ". The end of what it printed: " + tail;
    if (record_lost_cell(job_.plan, *worker.cell, options_, reason)) {
      worker.cell.reset();
      finish(CellOutcome::kFailed);
    } else {
      put_back(worker);
    }
  }

  // Idle workers end when their input does, others after the unit of work at hand. A second Ctrl-C
  // ends this process, and with it all of them.
  void stop() {
    for (Worker& worker : workers_) {
      if (!worker.program) continue;
      worker.program->close_input();
      if (worker.cell) worker.program->signal(SIGINT);
    }
    for (Worker& worker : workers_) {
      while (worker.program && !worker.program->ended()) {
        PipedProgram::read_available(worker.program->output());
        PipedProgram::read_available(worker.program->errors());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      worker.program.reset();
    }
  }

  const Job& job_;
  RunOptions options_;
  Progress& progress_;
  std::vector<Worker> workers_;
  Admission admission_;
  std::deque<size_t> waiting_;
  Clock::time_point look_again_;
  int64_t put_back_ = 0;
  int64_t finished_ = 0;
  RunOutcome outcome_;
};

}  // namespace

RunOutcome run_cells_local(const Job& job, const ExecutorContext& context) {
  if (job.plan.executor.workers && context.kernels == nullptr)
    return Pool(job, *context.progress).run();
  RunOptions options = run_options(job);
  options.progress = context.progress;
  options.kernels = context.kernels;
  options.inputs = context.inputs;
  return run_plan(job.plan, options);
}

}  // namespace gptqb
