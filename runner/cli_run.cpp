// run, plan and rerun.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "common/atomic_file.h"
#include "common/error.h"
#include "eval/evaluator.h"
#include "methods/quantizer.h"
#include "runner/cell_memory.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/kernel_settings.h"
#include "runner/model_checks.h"
#include "runner/report/report.h"
#include "runner/run.h"
#include "runner/run_lock.h"
#include "runner/save_checks.h"
#include "runner/terminal_progress.h"
#include "runner/verdict.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

fs::path data_root() {
  const char* root = std::getenv("GPTQ_BENCH_DATA");
  return root ? root : "";
}

// "I/N" into its two numbers.
void parse_shard(const std::string& text, PlanOptions& options) {
  char slash = 0, rest = 0;
  long long index = -1, count = 0;
  const int read = std::sscanf(text.c_str(), "%lld%c%lld%c", &index, &slash, &count, &rest);
  if (read != 3 || slash != '/' || count < 1 || index < 0 || index >= count)
    throw Error("--shard", "expected I/N with 0 <= I < N, got '" + text + "'");
  options.shard = index;
  options.shards = count;
}

// All plans of the files. Two experiments of one name would write into one folder as one, so that
// is refused.
std::vector<Plan> plans_of(const FileOptions& options) {
  PlanOptions plan_options{.methods = quantizers().names(), .evaluators = evaluators().names()};
  parse_shard(options.shard, plan_options);
  std::vector<Plan> plans;
  for (const std::string& file : options.files)
    for (const Experiment& experiment :
         load_experiments(file, {.set = options.set, .tier = options.tier})) {
      for (const Plan& other : plans)
        if (other.name == experiment.name && other.file != file)
          throw Error(file, "expected another name than '" + experiment.name + "', which " +
                                other.file + " has: their results would be mixed in one folder");
      plans.push_back(make_plan(experiment, plan_options));
    }
  if (plans.empty())
    throw Error("--tier", "expected a document of tier '" + options.tier +
                              "' in the files given, found none");
  return plans;
}

fs::path output_of(const RunCommandOptions& options, const std::string& experiment, bool several) {
  if (options.output.empty()) return fs::path("results") / experiment;
  return several ? fs::path(options.output) / experiment : fs::path(options.output);
}

// Rebuilds the tables of `output` from everything in it.
void write_tables(const fs::path& output) {
  write_reports(output, report_data(load_records(output), output));
}

}  // namespace

int run_plans(const std::vector<Plan>& plans, const RunCommandOptions& options, std::ostream& out,
              std::ostream& err) {
  TerminalProgress progress(err, isatty(STDERR_FILENO) != 0);
  std::set<std::string> names;
  for (const Plan& plan : plans) names.insert(plan.name);
  check_device(options.device);
  const KernelSource& kernels = options.kernels ? *options.kernels : registered_kernels();
  for (const Plan& plan : plans) check_kernels(plan, options.device, kernels);
  int code = kExitOk;
  for (const Plan& plan : plans) {
    for (const std::string& note : plan.notes) progress.note(note);
    RunOptions run_options;
    run_options.device = options.device == "cuda" ? "cuda:0" : options.device;
    run_options.output = output_of(options, plan.name, names.size() > 1);
    run_options.data_root = data_root();
    run_options.fresh = options.fresh;
    run_options.argv = options.argv;
    run_options.progress = &progress;
    run_options.kernels = &kernels;
    run_options.resume = plan.resume;
    run_options.dump_hessians = plan.dump_hessians;
    run_options.save = plan.save;
    run_options.limits = within_machine(plan.limits, run_options.device);
    const RunLock lock(run_options.output);
    RunOutcome outcome;
    try {
      outcome = run_plan(plan, run_options);
    } catch (const Interrupted&) {
      write_tables(run_options.output);
      throw;
    }
    write_tables(run_options.output);
    const std::vector<Verdict> verdicts = judge_records(outcome.records);
    out << report_formats().at("md").make.render({outcome.records, verdicts, {}});
    const bool measured = fs::exists(run_options.output / "kernels.csv");
    out << "\nFiles: " << run_options.output.string()
        << "/{report.html,table.md,table.tex,results.csv,results.json,"
        << (measured ? "layers.csv,kernels.csv,plots/,records/}\n" : "layers.csv,records/}\n");
    if (outcome.failed + outcome.missing + outcome.skipped > 0 || any_failed(verdicts))
      code = kExitFailed;
    if (outcome.ran + outcome.reused + outcome.failed == 0 && outcome.missing > 0)
      code = kExitBadInput;
  }
  return code;
}

int run_command(const RunCommandOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<Plan> plans = plans_of(options.files);
  std::vector<ModelChecks> checks;
  for (const Plan& plan : plans) {
    checks.push_back(check_models(plan, ""));
    check_saves(plan, checks.back().sizes, "");
  }
  check_device(options.device);
  for (size_t i = 0; i < plans.size(); ++i)
    skip_what_does_not_fit(plans[i], checks[i].sizes, options.device);
  return run_plans(plans, options, out, err);
}

int plan_command(const FileOptions& options, std::ostream& out) {
  std::vector<Plan> plans = plans_of(options);
  std::vector<std::string> missing;  // each once: the tables of a paper share their inputs
  for (Plan& plan : plans) {
    const ModelChecks checks = check_models(plan, "");
    for (const std::string& sentence : look_for_inputs(plan, data_root(), ""))
      if (std::find(missing.begin(), missing.end(), sentence) == missing.end())
        missing.push_back(sentence);
    out << plan_table(plan) << memory_lines(plan, checks.sizes);
    for (const std::string& sentence : checks.broken) out << "broken: " << sentence << '\n';
  }
  if (plans.size() > 1) out << plan_totals(plans);
  for (const std::string& sentence : missing) out << "missing: " << sentence << '\n';
  return kExitOk;
}

int rerun_command(const std::string& path, const RunCommandOptions& options, std::ostream& out,
                  std::ostream& err) {
  const Record record = record_from_json(read_file(path), path);
  Plan plan;
  plan.name = record.experiment;
  plan.file = path;
  plan.cells.push_back({Cell::from_json(record.cell), "", {}});
  RunCommandOptions rerun = options;
  if (rerun.output.empty()) rerun.output = "results/rerun-" + record.cell_id;
  return run_plans({plan}, rerun, out, err);
}

}  // namespace gptqb
