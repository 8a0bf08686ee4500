// plan: the cells of experiments, and what running them takes.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "common/add_once.h"
#include "common/error.h"
#include "runner/cell_memory.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/disk_plan.h"
#include "runner/model_checks.h"
#include "runner/output_folders.h"
#include "runner/report/markdown_table.h"
#include "runner/report/number_format.h"
#include "runner/run.h"
#include "runner/save_checks.h"
#include "runner/terminal_progress.h"
#include "runner/time_estimate.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// Records that say how long cells take. Those of --records are read once for all plans; a folder
// counts once, however often and by whatever path it is named.
class EarlierRecords {
 public:
  // Throws Error if one of `folders` has no records.
  explicit EarlierRecords(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
      for (const fs::path& output : required_output_folders(folder)) {
        if (!read_.insert(fs::weakly_canonical(output)).second) continue;
        std::vector<Record> records = load_records(output).records;
        std::move(records.begin(), records.end(), std::back_inserter(named_));
      }
    }
  }

  // Those of the plan's own folder, and those that were named.
  std::vector<Record> of(const Plan& plan) const {
    const fs::path own = fs::path("results") / plan.name;
    if (read_.contains(fs::weakly_canonical(own))) return named_;
    std::vector<Record> result = load_records(own).records;
    std::copy(named_.begin(), named_.end(), std::back_inserter(result));
    return result;
  }

 private:
  std::set<fs::path> read_;
  std::vector<Record> named_;
};

class Estimates {
 public:
  Estimates(const Plan& plan, const ModelChecks& checks, const PlanCommandOptions& options,
            std::vector<Record> earlier, InputCache& cache, Progress& progress)
      : plan_(plan),
        checks_(checks),
        options_(options),
        here_(capture_environment(one_device(options.device), {})),
        earlier_(std::move(earlier)),
        cache_(cache) {
    run_.device = here_.device;
    run_.data_root = data_root();
    run_.resume = plan.resume;
    run_.save = plan.save;
    run_.limits = within_machine(plan.limits, run_.device);
    run_.progress = &progress;
  }

  std::string text() {
    MarkdownTable table;
    table.add_column("cell");
    table.add_column("time", true);
    for (const char* title : {"blocks kept until it is finished", "checkpoint", "record"})
      table.add_column(title, true);
    table.add_column("how the time is known");
    double seconds = 0;
    int64_t unknown = 0, cells = 0, kept = 0, most_resume = 0;
    for (const PlannedCell& planned : plan_.cells) {
      const Cell& cell = planned.cell;
      if (!planned.skip_reason.empty() || !checks_.sizes.contains(cell.id())) continue;
      ++cells;
      const DiskPlan disk =
          plan_disk(cell, checks_.sizes.at(cell.id()), checks_.linears.at(cell.id()),
                    {.resume = plan_.resume,
                     .save = plan_.save.has_value(),
                     .hessians = plan_.dump_hessians});
      kept += disk.kept();
      most_resume = std::max(most_resume, disk.resume);
      std::string how;
      const std::optional<TimeEstimate> time = time_of(planned, how);
      seconds += time ? time->seconds : 0;
      unknown += !time;
      table.add_row({cell.id() + "  " + cell.summary(), time ? duration_text(time->seconds) : "?",
                     size_text(disk.resume), size_text(disk.checkpoint), size_text(disk.record),
                     time ? time->how : how});
    }
    if (cells == 0) return "";
    std::string text = "estimates on " + device_line(here_) + ":\n" + table.text();
    text += "in all: ";
    text += unknown == cells ? "time not known" : duration_text(seconds);
    if (unknown > 0 && unknown < cells)
      text += " for " + std::to_string(cells - unknown) + " of " + std::to_string(cells) + " cells";
    text += ", disk " + size_text(kept) + " that stay and up to " + size_text(most_resume) +
            " while a cell runs\n";
    if (unknown > 0 && !options_.measure)
      text +=
          "? : nobody has measured it here. --measure times a block of each such cell; "
          "--records DIR takes earlier records\n";
    return text;
  }

 private:
  static std::string size_text(int64_t bytes) {
    return bytes == 0 ? "-" : bytes_text(static_cast<double>(bytes));
  }

  std::optional<TimeEstimate> time_of(const PlannedCell& planned, std::string& how) {
    const Cell& cell = planned.cell;
    if (auto known = estimate_from_records(cell, earlier_, here_)) return known;
    if (!options_.measure) return std::nullopt;
    if (auto known = estimate_from_records(cell, measured_, here_)) {
      known->how = "as measured for a cell like it";
      return known;
    }
    if (!planned.missing.empty()) {
      how = "its inputs are missing";
      return std::nullopt;
    }
    try {
      TimeEstimate estimate = measure_time(cell, cache_, run_);
      Record& record = measured_.emplace_back();
      record.settings = cell.settings();
      record.environment = here_;
      record.seconds["cell"] = estimate.seconds;
      return estimate;
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      how = error.what();
      return std::nullopt;
    }
  }

  const Plan& plan_;
  const ModelChecks& checks_;
  const PlanCommandOptions& options_;
  Environment here_;
  std::vector<Record> earlier_;
  std::vector<Record> measured_;  // of cells of this plan, as far as a record tells its time
  InputCache& cache_;
  RunOptions run_;
};

}  // namespace

int plan_command(const PlanCommandOptions& options, std::ostream& out, std::ostream& err) {
  TerminalProgress progress(err, isatty(STDERR_FILENO) != 0);
  std::vector<Plan> plans = plans_of(options.files);
  if (options.measure) check_device(options.device);
  std::vector<std::string> missing;  // each once: the tables of a paper share their inputs
  std::vector<std::map<std::string, ModelSizes>> sizes;
  const EarlierRecords earlier(options.records);
  InputCache cache(data_root(), "");  // plans of one paper share tokenizers and windows
  for (Plan& plan : plans) {
    const ModelChecks checks = check_models(plan, "");
    sizes.push_back(checks.sizes);
    for (const std::string& sentence : look_for_inputs(plan, data_root(), ""))
      add_once(sentence, missing);
    out << plan_table(plan) << memory_lines(plan, checks.sizes)
        << Estimates(plan, checks, options, earlier.of(plan), cache, progress).text();
    for (const std::string& sentence : checks.broken) out << "broken: " << sentence << '\n';
  }
  if (plans.size() > 1) out << plan_totals(plans);
  for (const std::string& sentence : missing) out << "missing: " << sentence << '\n';
  for (size_t i = 0; i < plans.size(); ++i) check_saves(plans[i], sizes[i], "");
  return kExitOk;
}

}  // namespace gptqb
