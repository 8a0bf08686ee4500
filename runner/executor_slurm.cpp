// Cells as tasks of Slurm job arrays. This process submits, watches and submits again what was
// lost; it may end and come back at any time, for all it knows is on disk (slurm_run.h) or in the
// queue.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "runner/build_info.h"
#include "runner/executor.h"
#include "runner/output_lock.h"
#include "runner/resume_store.h"
#include "runner/slurm_client.h"
#include "runner/slurm_run.h"
#include "runner/text_tail.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostTries = 3;    // of a cell that makes no headway
constexpr int kMostQuestions = 3;    // to a cluster that has none of this run's jobs
constexpr size_t kMostTasks = 1000;  // of an array: Slurm's default MaxArraySize is 1001
constexpr size_t kTailBytes = 600;
constexpr std::chrono::seconds kSecondInterrupt{3};

constexpr const char* kWhatToDo =
    "Look with 'scontrol ping' on this machine, run where the cluster can be reached, or run here "
    "with --executor local";

std::atomic<int> interrupts{0};

// While it lives, a second Ctrl-C is counted and only a third ends the process: the second may come
// while squeue is asked, which takes seconds if nobody answers.
class CountedInterrupts {
 public:
  CountedInterrupts() {
    interrupts = 0;
    before_ = std::signal(SIGINT, [](int) {
      interrupt_requested() = true;
      if (++interrupts >= 2) std::signal(SIGINT, SIG_DFL);
    });
  }
  ~CountedInterrupts() { std::signal(SIGINT, before_); }
  CountedInterrupts(const CountedInterrupts&) = delete;
  CountedInterrupts& operator=(const CountedInterrupts&) = delete;

 private:
  void (*before_)(int) = SIG_DFL;
};

// Whether a second Ctrl-C has come or comes soon. The first has been seen.
bool interrupted_again() {
  const auto end = Clock::now() + kSecondInterrupt;
  while (interrupts < 2 && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return interrupts >= 2;
}

class SlurmExecution {
 public:
  SlurmExecution(const Job& job, const ExecutorContext& context)
      : job_(absolute(job)),
        context_(context),
        progress_(*context.progress),
        lock_(job_.output),
        run_(SlurmRun::of(job_)),
        options_(run_options(job_)) {
    options_.progress = &progress_;
  }

  RunOutcome run() {
    const std::optional<OutputLock::Held> held = lock_.try_name(run_.name());
    if (!held)
      throw Error(job_.output.string(),
                  "expected to be the only process that watches the jobs of this plan, got another "
                  "one that does. Wait for it");
    const auto cells = static_cast<int64_t>(job_.plan.cells.size());
    progress_.begin("cells of " + job_.plan.name, cells);
    open();
    for (;;) {
      // Asked first: what a task that is not in the queue has done is on disk then.
      const slurm::Queue queue = slurm::queue();
      look_for_outcomes();
      if (outcomes_.size() == job_.plan.cells.size()) break;
      if (queue.fault.empty()) {
        if (std::exchange(unanswered_, 0) > 0) say("Slurm answers again");
        submit_what_is_lost(queue);
      } else {
        bear(queue.fault);
      }
      pause();
    }
    close();
    RunOutcome outcome;
    for (const auto& [index, result] : outcomes_) outcome.count(result);
    outcome.records = records_of(job_);
    return outcome;
  }

 private:
  using Submission = SlurmRun::Submission;

  static Job absolute(Job job) {
    job.output = fs::absolute(job.output).lexically_normal();
    if (!job.data_root.empty()) job.data_root = fs::absolute(job.data_root);
    return job;
  }

  const Cell& cell(size_t index) const { return job_.plan.cells[index].cell; }

  // A new run, or the one that an earlier call of the same command began.
  void open() {
    if (job_.fresh) {
      const slurm::Queue queue = slurm::queue();
      if (!queue.fault.empty())
        throw Error("--fresh",
                    "expected Slurm to say whether jobs of an earlier run of this plan are left, "
                    "got " +
                        queue.fault + ". " + kWhatToDo);
      if (const std::vector<std::string> jobs = jobs_in(queue); !jobs.empty())
        throw Error("--fresh", "expected no jobs of an earlier run of this plan, got " +
                                   join(jobs, ", ") + ". Cancel them: scancel " + join(jobs, " "));
      run_.remove();
    }
    if (run_.exists()) {
      state_ = run_.load();
      // One whose sbatch had not answered may be in the queue: then it is found there.
      if (!state_.submissions.empty())
        say("comes back to the jobs of an earlier call: " +
            (nothing_submitted() ? "none that sbatch confirmed" : join(submitted(), ", ")));
      return;
    }
    run_.remove();  // what tasks of a cancelled one left
    if (job_.fresh) set_records_aside();
    Job frozen = job_;
    frozen.fresh = false;  // a task that starts again goes on
    run_.create(frozen);
    write_script("task.sh",
                 // Of several cells on one node each gets what Slurm gave it.
                 "export OMP_NUM_THREADS=\"${OMP_NUM_THREADS:-${SLURM_CPUS_ON_NODE:-1}}\"\n"
                 "exec " +
                     slurm::shell_word(program_path()) + " worker --run " +
                     slurm::shell_word(run_.folder().string()) +
                     " --submission \"$1\" --task \"$SLURM_ARRAY_TASK_ID\"\n");
    write_script("tables.sh", "exec " + slurm::shell_word(program_path()) + " report " +
                                  slurm::shell_word(job_.output.string()) + "\n");
    state_.trials.resize(job_.plan.cells.size());
    run_.save(state_);
    // Written down here: a job for each would only say the same.
    const std::unique_ptr<CellRunner> runner = make_cell_runner(job_.plan, options_);
    for (size_t i = 0; i < job_.plan.cells.size(); ++i)
      if (!job_.plan.cells[i].skip_reason.empty())
        if (const auto result = runner->run(i)) run_.set_outcome(i, result->outcome);
  }

  void write_script(const char* name, const std::string& text) const {
    write_file_atomically(run_.folder() / name, "#!/bin/sh\n" + text);
  }

  // `--fresh` once for the run, not for each start of a task.
  void set_records_aside() {
    for (size_t i = 0; i < job_.plan.cells.size(); ++i) {
      const fs::path path = record_path(job_.output, cell(i).id());
      std::error_code absent;
      fs::rename(path, path.string() + ".previous", absent);
      FileResumeStore(job_.output, cell(i).id(), &progress_).discard();
    }
  }

  std::string job_name(size_t submission) const {
    return run_.name() + "-" + std::to_string(submission);
  }

  // Ids of this run's jobs in the queue.
  std::vector<std::string> jobs_in(const slurm::Queue& queue) const {
    std::set<std::string> jobs;
    for (const slurm::Queued& task : queue.tasks)
      if (task.name.starts_with(run_.name() + "-")) jobs.insert(task.job);
    return {jobs.begin(), jobs.end()};
  }

  // Ids of all arrays that sbatch took, ended ones too.
  std::vector<std::string> submitted() const {
    std::vector<std::string> jobs;
    for (const Submission& each : state_.submissions)
      if (!each.job.empty()) jobs.push_back(each.job);
    return jobs;
  }
  bool nothing_submitted() const { return submitted().empty(); }

  // Without jobs there is nothing to wait for; with them a controller that is away is one that
  // restarts, for its jobs run without it.
  void bear(const std::string& fault) {
    ++unanswered_;
    if (!nothing_submitted()) {
      if (unanswered_ == 1)
        say("Slurm cannot be asked (" + fault + "). " + job_words(submitted()) +
            (submitted().size() == 1 ? " goes" : " go") +
            " on without that; asking until it answers");
      return;
    }
    if (unanswered_ == kMostQuestions)
      throw Error("squeue", "expected an answer from Slurm, got " + fault + ", " +
                                std::to_string(kMostQuestions) +
                                " times in a row. Nothing was submitted. " + kWhatToDo);
    if (unanswered_ == 1)
      say("Slurm cannot be asked (" + fault + "), trying " + std::to_string(kMostQuestions - 1) +
          " times more");
  }

  static std::string job_words(const std::vector<std::string>& jobs) {
    return (jobs.size() == 1 ? "Slurm job " : "Slurm jobs ") + join(jobs, ", ");
  }

  void look_for_outcomes() {
    for (size_t i = 0; i < job_.plan.cells.size(); ++i) {
      if (outcomes_.count(i) > 0) continue;
      const std::optional<CellOutcome> outcome = run_.outcome(i);
      if (!outcome) continue;
      if (*outcome == CellOutcome::kFailed)
        progress_.note(cell(i).summary() + " (" + cell(i).id() + ") failed: " + reason_of(i));
      finish(i, *outcome);
    }
  }

  void finish(size_t index, CellOutcome outcome) {
    outcomes_[index] = outcome;
    progress_.advance();
  }

  std::string reason_of(size_t index) const {
    const fs::path path = record_path(job_.output, cell(index).id());
    try {
      return record_from_json(read_file(path), path.string()).reason;
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Which submission and task a cell is in now: the last one that has it.
  std::map<size_t, std::pair<size_t, size_t>> places() const {
    std::map<size_t, std::pair<size_t, size_t>> result;
    for (size_t k = 0; k < state_.submissions.size(); ++k) {
      if (state_.submissions[k].job.empty()) continue;  // sbatch never took it
      for (size_t t = 0; t < state_.submissions[k].tasks.size(); ++t)
        for (const size_t index : state_.submissions[k].tasks[t]) result[index] = {k, t};
    }
    return result;
  }

  // Ids of submissions whose sbatch answered when this process had been killed.
  void adopt(const slurm::Queue& queue) {
    for (size_t k = 0; k < state_.submissions.size(); ++k) {
      if (!state_.submissions[k].job.empty()) continue;
      for (const slurm::Queued& task : queue.tasks)
        if (task.name == job_name(k)) state_.submissions[k].job = task.job;
    }
  }

  void submit_what_is_lost(const slurm::Queue& queue) {
    adopt(queue);
    std::set<std::pair<std::string, std::string>> queued;
    std::map<std::string, int64_t> states;
    for (const slurm::Queued& task : queue.tasks) {
      if (!task.name.starts_with(run_.name() + "-")) continue;
      queued.insert({task.job, task.task});
      if (task.task != "N/A")
        ++states[task.state == "PENDING" ? "waiting (" + task.reason + ")" : task.state];
    }
    say_states(states);
    const auto where = places();
    std::vector<size_t> unsent, absent;
    for (size_t i = 0; i < job_.plan.cells.size(); ++i) {
      if (outcomes_.count(i) > 0) continue;
      const auto place = where.find(i);
      if (place == where.end()) {
        unsent.push_back(i);
        continue;
      }
      const auto [k, t] = place->second;
      if (queued.count({state_.submissions[k].job, std::to_string(t)}) == 0) absent.push_back(i);
    }
    // What another machine wrote may be seen a little later than the end of its job: a cell is lost
    // if it was absent at the look before too, and this folder was touched in between.
    std::vector<size_t> lost;
    for (const size_t i : absent)
      if (absent_before_.count(i) > 0) lost.push_back(i);
    absent_before_ = {absent.begin(), absent.end()};
    if (!absent.empty()) write_file_atomically(run_.folder() / "done" / ".look", "");
    std::vector<size_t> again;
    for (const size_t i : lost) {
      absent_before_.erase(i);
      if (try_again(i, where.at(i))) again.push_back(i);
    }
    if (!unsent.empty() || !again.empty()) submit(unsent, again);
  }

  // Counts a loss: whether the cell gets another try. A task that ended at its time limit with more
  // finished blocks than the one before has not failed, it needs more of them.
  bool try_again(size_t index, std::pair<size_t, size_t> place) {
    const std::string& job = state_.submissions[place.first].job;
    const std::string task = std::to_string(place.second);
    const std::string ended = slurm::ending(job, task);
    const std::string sentence = "Slurm job " + job + "_" + task + " ended " +
                                 (ended.empty() ? "" : "(" + ended + ") ") +
                                 "without a record of the cell";
    SlurmRun::Trials& trials = state_.trials[index];
    const int64_t blocks = finished_blocks(index);
    trials.lost = blocks > trials.blocks ? 1 : trials.lost + 1;
    trials.blocks = blocks;
    if (trials.lost < kMostTries) {
      progress_.note(cell(index).summary() + " (" + cell(index).id() + "): " + sentence +
                     "; it is submitted again");
      return true;
    }
    const fs::path log = run_.log(static_cast<int64_t>(place.first), task);
    const std::string limit = job_.plan.executor.time.empty()
                                  ? "the partition's default; executor.time sets one"
                                  : "executor.time (" + job_.plan.executor.time + ")";
    const std::string reason =
        sentence + ", the last of " + std::to_string(kMostTries) + " tries without headway. " +
        (ended.starts_with("TIMEOUT") ? "The time limit is " + limit + ". " : "") +
        printed_text(log, kTailBytes);
    // Empty if a task is at the cell after all: then that one tells.
    if (record_lost_cell(job_.plan, index, options_, reason)) {
      run_.set_outcome(index, CellOutcome::kFailed);
      finish(index, CellOutcome::kFailed);
    }
    return false;
  }

  int64_t finished_blocks(size_t index) const {
    std::error_code absent;
    const fs::directory_iterator files(job_.output / "work" / cell(index).id(), absent);
    return absent ? 0 : std::distance(fs::begin(files), fs::end(files));
  }

  // A record that its task will most likely keep, after a look at the cell's inputs.
  bool seems_finished(size_t index) const {
    const fs::path path = record_path(job_.output, cell(index).id());
    if (!fs::exists(path)) return false;
    try {
      const Record record = record_from_json(read_file(path), path.string());
      return record.status == CellStatus::kOk && record.environment.build_id == build_id();
    } catch (const Error&) {
      return false;
    }
  }

  // A cell a task, but for plans of more cells than an array may have tasks; cells that seem
  // finished are only looked at, many in one task. A cell that was lost is alone: it may have taken
  // others along.
  std::vector<std::vector<size_t>> tasks_of(const std::vector<size_t>& unsent,
                                            const std::vector<size_t>& again) const {
    std::vector<size_t> finished, open;
    for (const size_t i : unsent) (seems_finished(i) ? finished : open).push_back(i);
    std::vector<std::vector<size_t>> tasks;
    const auto deal = [&](const std::vector<size_t>& cells, size_t most) {
      if (cells.empty()) return;
      const size_t count = std::min(most, cells.size()), first = tasks.size();
      tasks.resize(first + count);
      for (size_t i = 0; i < cells.size(); ++i) tasks[first + i % count].push_back(cells[i]);
    };
    const size_t checks = static_cast<size_t>(job_.plan.executor.workers.value_or(4));
    deal(finished, std::min(checks, kMostTasks / 4));
    deal(again, kMostTasks / 4);
    deal(open, kMostTasks / 2);
    return tasks;
  }

  void submit(const std::vector<size_t>& unsent, const std::vector<size_t>& again) {
    const size_t k = state_.submissions.size();
    const std::vector<std::vector<size_t>> tasks = tasks_of(unsent, again);
    state_.submissions.push_back({"", tasks});
    run_.save(state_);
    std::string array = "--array=0-" + std::to_string(tasks.size() - 1);
    if (job_.plan.executor.workers) array += "%" + std::to_string(*job_.plan.executor.workers);
    const std::string logs =
        slurm::output_pattern((run_.folder().parent_path() / job_name(k)).string());
    Submission& submission = state_.submissions[k];
    submission.job =
        slurm::submit(job_.plan.executor, true,
                      {array, "--job-name=" + job_name(k), "--output=" + logs + "-%a.log",
                       "--open-mode=append", "--requeue"},
                      {(run_.folder() / "task.sh").string(), std::to_string(k)});
    run_.save(state_);
    try {
      slurm::submit(
          job_.plan.executor, false,
          {"--dependency=afterany:" + submission.job, "--job-name=" + job_name(k) + "-tables",
           "--output=" + logs + "-tables.log", "--open-mode=append"},
          {(run_.folder() / "tables.sh").string()});
    } catch (const Error& error) {
      progress_.note(std::string("no job will rebuild the tables if this process ends first: ") +
                     error.what());
    }
    progress_.note("Slurm job " + submission.job + ": " +
                   std::to_string(unsent.size() + again.size()) + " cells in " +
                   std::to_string(tasks.size()) + " tasks, output in " +
                   (run_.folder().parent_path() / job_name(k)).string() + "-*.log");
  }

  // All cells have their outcome: this process writes the tables itself, and a task that Slurm
  // would start once more has nothing to do.
  void close() {
    slurm::cancel(jobs_in(slurm::queue()));
    run_.remove();
  }

  // Until the next look. Throws Interrupted, when it has been decided what becomes of the jobs.
  void pause() {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(context_.poll_seconds));
    while (Clock::now() < end) {
      if (interrupt_requested()) leave();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  [[noreturn]] void leave() {
    if (state_.submissions.empty()) {
      progress_.note("no Slurm job was submitted");
      run_.remove();
      throw Interrupted();
    }
    const std::vector<std::string> jobs = submitted();
    const std::string words =
        jobs.empty() ? "Slurm job that sbatch did not confirm" : job_words(jobs);
    const bool one = jobs.size() <= 1;
    bool cancel = context_.cancel_on_interrupt;
    if (!cancel) {
      progress_.note(words + (one ? " goes on, and the same command comes back to it. "
                                    "Ctrl-C again within 3 seconds cancels it"
                                  : " go on, and the same command comes back to them. "
                                    "Ctrl-C again within 3 seconds cancels them"));
      cancel = interrupted_again();
    }
    if (cancel) cancel_jobs(jobs);
    throw Interrupted();
  }

  // What cannot be cancelled stays a run that the same command comes back to.
  void cancel_jobs(const std::vector<std::string>& jobs) {
    const slurm::Queue queue = slurm::queue();
    // Those that have ended are not in the queue, and scancel would complain of them.
    const std::string fault = slurm::cancel(queue.fault.empty() ? jobs_in(queue) : jobs);
    if (!queue.fault.empty() || !fault.empty()) {
      progress_.note("expected to cancel " + job_words(jobs) + ", got " +
                     (fault.empty() ? queue.fault : fault) + ". Once Slurm answers: scancel " +
                     join(jobs, " ") + ", or the same command again and Ctrl-C twice");
      return;
    }
    progress_.note(job_words(jobs) + (jobs.size() == 1 ? " is" : " are") + " cancelled");
    run_.remove();
  }

  void say_states(const std::map<std::string, int64_t>& states) {
    std::vector<std::string> parts;
    for (const auto& [state, count] : states)
      parts.push_back(std::to_string(count) + " " + lower(state));
    if (!parts.empty()) say("tasks: " + join(parts, ", "));
  }

  static std::string lower(std::string state) {
    if (state.starts_with("waiting")) return state;
    for (char& letter : state) letter = static_cast<char>(std::tolower(letter));
    return state;
  }

  // What does not change is said once.
  void say(const std::string& line) {
    if (line != said_) progress_.note(line);
    said_ = line;
  }

  const Job job_;
  const ExecutorContext& context_;
  Progress& progress_;
  const OutputLock lock_;
  const SlurmRun run_;
  RunOptions options_;
  SlurmRun::State state_;
  std::map<size_t, CellOutcome> outcomes_;
  std::set<size_t> absent_before_;
  std::string said_;
  int unanswered_ = 0;  // questions in a row
};

}  // namespace

RunOutcome run_cells_slurm(const Job& job, const ExecutorContext& context) {
  if (job.plan.cells.empty()) return {};
  const CountedInterrupts counted;
  return SlurmExecution(job, context).run();
}

}  // namespace gptqb
