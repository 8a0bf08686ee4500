#include "runner/run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <regex>
#include <thread>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "kernels/device_info.h"
#include "runner/cell_run.h"
#include "runner/device_warmup.h"
#include "runner/hessian_dump.h"
#include "runner/kernel_cell.h"
#include "runner/output_lock.h"
#include "runner/packed_save.h"
#include "runner/resume_store.h"

namespace gptqb {
namespace {

constexpr const char* kOutcomeNames[] = {"ran", "reused", "failed", "skipped", "missing"};

// Between two looks at a cell that another process is at.
constexpr std::chrono::milliseconds kBusyPoll{100};

// Whether a finished record still describes what would be computed now; else why not.
std::string stale_reason(const Record& old, const Record& now) {
  if (old.cell != now.cell) return "its settings differ";
  if (old.environment.build_id != now.environment.build_id)
    return "another build of the program made it";
  if (old.environment.device != now.environment.device ||
      old.environment.gpu != now.environment.gpu)
    return "it was made on another device";
  const InputsRecord &was = old.inputs, &is = now.inputs;
  if (was.model_fingerprint != is.model_fingerprint) return "the model's files changed";
  if (was.tokenizer_fingerprint != is.tokenizer_fingerprint) return "the tokenizer's files changed";
  if (was.external_fingerprint != is.external_fingerprint) return "the external program changed";
  if (!is.files.empty() && was.files.empty()) return "it was made without --verify";
  for (const SourceFile& file : is.files)
    if (std::none_of(was.files.begin(), was.files.end(), [&](const SourceFile& known) {
          return known.path == file.path && known.sha256 == file.sha256;
        }))
      return "the model's file " + file.path + " changed";
  if (was.windows.size() != is.windows.size()) return "its token windows changed";
  for (size_t i = 0; i < is.windows.size(); ++i)
    if (was.windows[i].ids_sha256 != is.windows[i].ids_sha256 ||
        was.windows[i].count != is.windows[i].count)
      return "the token windows of " + is.windows[i].name + " changed";
  return "";
}

// The record of an earlier run of this cell, if there is one that can be read.
std::optional<Record> earlier_record(const std::filesystem::path& output,
                                     const std::string& cell_id, Progress& progress) {
  const std::filesystem::path path = record_path(output, cell_id);
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    return record_from_json(read_file(path), path.string());
  } catch (const Error& error) {
    progress.note(std::string("a damaged record is replaced: ") + error.what());
    return std::nullopt;
  }
}

// What a failure is called in a record: one sentence, no stack trace.
std::string failure_reason(const std::exception& error) {
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error))
    return torch_error->what_without_backtrace();
  return error.what();
}

class PlanRun : public CellRunner {
 public:
  PlanRun(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        options_(options),
        progress_(options.progress ? *options.progress : silent_progress()),
        own_cache_(options.data_root, options.base),
        cache_(options.inputs ? *options.inputs : own_cache_),
        lock_(options.output),
        environment_(capture_environment(options.device, options.argv)) {}

  std::optional<CellResult> run(size_t index) override {
    throw_if_interrupted();
    const PlannedCell& planned = plan_.cells[index];
    const std::optional<OutputLock::Held> held = lock_.try_name(planned.cell.id());
    if (!held) return std::nullopt;
    name(index);
    CellResult result;
    result.record = run_one(planned);
    result.outcome = outcome_;
    return result;
  }

  std::optional<CellResult> lose(size_t index, const std::string& reason) {
    const PlannedCell& planned = plan_.cells[index];
    const std::optional<OutputLock::Held> held = lock_.try_name(planned.cell.id());
    if (!held) return std::nullopt;
    name(index);
    return CellResult{CellOutcome::kFailed, fail(blank_record(planned), reason)};
  }

 private:
  void name(size_t index) {
    label_ = "[" + std::to_string(index + 1) + "/" + std::to_string(plan_.cells.size()) + "] " +
             plan_.cells[index].cell.summary();
  }

  Record blank_record(const PlannedCell& planned) const {
    Record record;
    record.cell_id = planned.cell.id();
    record.experiment = plan_.name;
    record.position = planned.position;
    record.cell = planned.cell.canonical();
    record.settings = planned.cell.settings();
    record.expectations = planned.expectations;
    if (!plan_.claim.statement.empty()) record.claim = plan_.claim;
    record.environment = environment_;
    return record;
  }

  // Sets `outcome_`.
  Record run_one(const PlannedCell& planned) {
    const Cell& cell = planned.cell;
    Record record = blank_record(planned);
    if (!planned.skip_reason.empty())
      return skip(std::move(record), planned.skip_reason, CellOutcome::kSkipped);
    if (cell.measures_kernels()) return run_kernels(cell, std::move(record));
    const std::vector<std::string> missing =
        missing_inputs(cell, options_.data_root, options_.base);
    if (!missing.empty())
      return skip(std::move(record), "not run: " + join(missing, "; "), CellOutcome::kMissing);
    try {
      if (!warm_) warm_up(at::Device(options_.device));
      warm_ = true;
      PhaseClock clock(at::Device(options_.device), "read");
      PreparedCell prepared = prepare_cell(cell, cache_, options_);
      record.inputs = prepared.inputs;
      record.notes = prepared.notes;
      if (std::optional<Record> kept = reusable(cell, record)) {
        outcome_ = CellOutcome::kReused;
        // Left where a run was killed between its record and this.
        FileResumeStore(options_.output, cell.id(), &progress_).discard();
        take_place_of(record, *kept);
        write_record(options_.output, *kept);
        return std::move(*kept);
      }
      MemoryPlan memory;
      if (const std::string reason = does_not_fit(cell, prepared, memory); !reason.empty())
        return skip(std::move(record), reason, CellOutcome::kSkipped);
      RunOptions own = options_;
      if (options_.admit)
        own.limits.host = clock.leave_out([&] { return options_.admit(memory.host_bytes()); });
      progress_.note(label_);
      if (options_.fresh) FileResumeStore(options_.output, cell.id(), &progress_).discard();
      run_cell(cell, prepared, memory, own, clock, record);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      return fail(std::move(record), failure_reason(error));
    }
    write_record(options_.output, record);
    FileResumeStore(options_.output, cell.id(), &progress_).discard();
    outcome_ = CellOutcome::kRan;
    return record;
  }

  // Windows are counted only now, where the plan of all cells did not know how many there are. Sets
  // `memory`, or says why not.
  std::string does_not_fit(const Cell& cell, const PreparedCell& prepared,
                           MemoryPlan& memory) const {
    try {
      memory = memory_of(cell, prepared, options_);
      return "";
    } catch (const Error& error) {
      return std::string("does not fit: ") + error.what();
    }
  }

  // A cell without a model: nothing but the device and the build goes in.
  Record run_kernels(const Cell& cell, Record record) {
    if (std::optional<Record> kept = reusable(cell, record)) {
      outcome_ = CellOutcome::kReused;
      take_place_of(record, *kept);
      write_record(options_.output, *kept);
      return std::move(*kept);
    }
    progress_.note(label_);
    std::string reason;
    try {
      reason = run_kernel_cell(cell, options_, record);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      reason = failure_reason(error);
    }
    if (!reason.empty()) return fail(std::move(record), reason);
    write_record(options_.output, record);
    outcome_ = CellOutcome::kRan;
    return record;
  }

  // What a kept record is held against, and its place in the tables, are the experiment file's of
  // today.
  static void take_place_of(const Record& now, Record& kept) {
    kept.experiment = now.experiment;
    kept.position = now.position;
    kept.expectations = now.expectations;
    kept.claim = now.claim;
  }

  // A cell that cannot run now. A finished record of it stays: its inputs may only be out of reach.
  Record skip(Record record, const std::string& reason, CellOutcome outcome) {
    outcome_ = outcome;
    if (std::optional<Record> kept = finished_record(record)) {
      progress_.note(label_ + ": the finished record is kept but could not be checked: " + reason);
      take_place_of(record, *kept);
      kept->notes.push_back("not checked against its inputs in the last run: " + reason);
      return std::move(*kept);
    }
    record.status = CellStatus::kSkipped;
    record.reason = reason;
    progress_.note(label_ + " skipped: " + reason);
    write_record(options_.output, record);
    return record;
  }

  Record fail(Record record, const std::string& reason) {
    outcome_ = CellOutcome::kFailed;
    progress_.note(label_ + " failed: " + reason);
    const std::filesystem::path path = record_path(options_.output, record.cell_id);
    if (finished_record(record)) {
      const std::string previous = path.string() + ".previous";
      write_file_atomically(previous, read_file(path));
      record.notes.push_back("an earlier, finished record is kept as " + previous);
    }
    record.status = CellStatus::kFailed;
    record.reason = reason;
    write_record(options_.output, record);
    return record;
  }

  // The record of an earlier run of the same cell, if that run finished it.
  std::optional<Record> finished_record(const Record& now) {
    std::optional<Record> old = earlier_record(options_.output, now.cell_id, progress_);
    return old && old->status == CellStatus::kOk ? old : std::nullopt;
  }

  // Whether a finished cell must run again for what `dump` asks for.
  bool lacks_hessians(const Cell& cell, const Record& record) const {
    if (!options_.dump_hessians || !cell.needs_calibration()) return false;
    const FileHessianSink sink(options_.output, cell.id(), quantization_inputs(record));
    for (const LayerHealth& layer : record.layers)
      if (layer.tokens > 0 && !sink.has(layer.layer)) return true;
    return false;
  }

  std::optional<Record> reusable(const Cell& cell, const Record& now) {
    if (options_.fresh) return std::nullopt;
    std::optional<Record> old = finished_record(now);
    if (!old) return std::nullopt;
    std::string reason = stale_reason(*old, now);
    if (reason.empty() && lacks_hessians(cell, *old)) reason = "its Hessians are not on disk";
    if (reason.empty() && options_.save && !cell.dense() && !cell.measures_kernels() &&
        !is_saved(*options_.save, cell, options_.base, now.inputs.model_fingerprint))
      reason = "its packed checkpoint is not in " +
               save_folder(*options_.save, cell, options_.base).string();
    if (reason.empty()) {
      progress_.note(label_ + ": kept from an earlier run");
      return old;
    }
    progress_.note(label_ + ": runs again, " + reason);
    // Blocks kept by another build or for other inputs are as stale as the record.
    FileResumeStore(options_.output, cell.id(), &progress_).discard();
    return std::nullopt;
  }

  const Plan& plan_;
  const RunOptions& options_;
  Progress& progress_;
  InputCache own_cache_;
  InputCache& cache_;
  const OutputLock lock_;
  Environment environment_;
  CellOutcome outcome_ = CellOutcome::kRan;  // of the cell at hand
  std::string label_;
  bool warm_ = false;
};

}  // namespace

std::string one_device(const std::string& device) { return device == "cuda" ? "cuda:0" : device; }

void check_device(const std::string& device) {
  if (device == "cpu") return;
  static const std::regex kCuda("cuda(:[0-9]{1,3})?");
  if (!std::regex_match(device, kCuda))
    throw Error("--device", "expected cpu, cuda or cuda:N, got '" + device + "'");
  const kernels::CudaInfo info = kernels::cuda_info();
  std::string reason = info.unavailable;
  const auto index = static_cast<size_t>(std::max<int>(0, at::Device(device).index()));
  if (reason.empty())
    reason = index < info.devices.size()
                 ? info.devices[index].unusable
                 : "there are " + std::to_string(info.devices.size()) + " devices";
  if (!reason.empty())
    throw Error("--device", "expected a usable GPU for '" + device + "', got none: " + reason);
}

const char* outcome_name(CellOutcome outcome) { return kOutcomeNames[static_cast<int>(outcome)]; }

std::optional<CellOutcome> outcome_of(const std::string& name) {
  for (size_t i = 0; i < std::size(kOutcomeNames); ++i)
    if (name == kOutcomeNames[i]) return static_cast<CellOutcome>(i);
  return std::nullopt;
}

void RunOutcome::count(CellOutcome outcome) {
  int64_t* const counts[] = {&ran, &reused, &failed, &skipped, &missing};
  ++*counts[static_cast<int>(outcome)];
}

std::unique_ptr<CellRunner> make_cell_runner(const Plan& plan, const RunOptions& options) {
  return std::make_unique<PlanRun>(plan, options);
}

std::optional<CellResult> record_lost_cell(const Plan& plan, size_t index,
                                           const RunOptions& options, const std::string& reason) {
  return PlanRun(plan, options).lose(index, reason);
}

RunOutcome run_plan(const Plan& plan, const RunOptions& options) {
  PlanRun runner(plan, options);
  RunOutcome outcome;
  outcome.records.resize(plan.cells.size());
  std::deque<size_t> waiting;
  for (size_t i = 0; i < plan.cells.size(); ++i) waiting.push_back(i);
  size_t busy = 0;  // cells in a row that others were at
  while (!waiting.empty()) {
    const size_t index = waiting.front();
    waiting.pop_front();
    std::optional<CellResult> result = runner.run(index);
    if (!result) {
      if (++busy == 1 && options.progress)
        options.progress->note("another run is at cell " + plan.cells[index].cell.id() +
                               ": it comes last");
      waiting.push_back(index);
      if (busy >= waiting.size()) std::this_thread::sleep_for(kBusyPoll);
      continue;
    }
    busy = 0;
    outcome.count(result->outcome);
    outcome.records[index] = std::move(result->record);
  }
  return outcome;
}

}  // namespace gptqb
