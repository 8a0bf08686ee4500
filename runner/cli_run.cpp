// run, and what its relatives share.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "common/error.h"
#include "eval/evaluator.h"
#include "methods/quantizer.h"
#include "runner/cell_memory.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/decode_cell.h"
#include "runner/executor.h"
#include "runner/kernel_settings.h"
#include "runner/model_checks.h"
#include "runner/output_lock.h"
#include "runner/report/report.h"
#include "runner/run.h"
#include "runner/save_checks.h"
#include "runner/terminal_progress.h"
#include "runner/verdict.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

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

fs::path output_of(const RunCommandOptions& options, const std::string& experiment, bool several) {
  if (options.output.empty()) return fs::path("results") / experiment;
  return several ? fs::path(options.output) / experiment : fs::path(options.output);
}

bool runs_here(const Plan& plan) { return plan.executor.name != "slurm"; }

// Rebuilds the tables of `output` from everything in it.
void write_tables(const fs::path& output) {
  // Runs that end together take turns: the last one has then seen the records of all.
  const OutputLock::Held held = OutputLock(output).wait_name(kTablesLock);
  write_reports(output, report_data(load_records(output), output));
}

}  // namespace

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

fs::path data_root() {
  const char* root = std::getenv("GPTQ_BENCH_DATA");
  return root ? root : "";
}

int run_plans(const std::vector<Plan>& plans, const RunCommandOptions& options, std::ostream& out,
              std::ostream& err) {
  TerminalProgress progress(err, isatty(STDERR_FILENO) != 0);
  std::set<std::string> names;
  for (const Plan& plan : plans) names.insert(plan.name);
  // Jobs run on other machines than this one, and look for themselves.
  for (const Plan& plan : plans) {
    if (!runs_here(plan)) continue;
    check_device(options.device);
    check_kernels(plan, options.device, options.kernels ? *options.kernels : registered_kernels());
  }
  int code = kExitOk;
  for (const Plan& plan : plans) {
    for (const std::string& note : plan.notes) progress.note(note);
    const Job job{.plan = plan,
                  .device = options.device,
                  .output = output_of(options, plan.name, names.size() > 1),
                  .data_root = data_root(),
                  .base = {},
                  .fresh = options.fresh,
                  .verify = options.verify,
                  .argv = options.argv};
    const ExecutorContext context{.progress = &progress,
                                  .kernels = options.kernels,
                                  .inputs = options.inputs,
                                  .cancel_on_interrupt = options.cancel_on_interrupt,
                                  .poll_seconds = options.poll_seconds};
    RunOutcome outcome;
    try {
      outcome = executors().at(plan.executor.name).make.run(job, context);
    } catch (const Interrupted&) {
      write_tables(job.output);
      throw;
    }
    write_tables(job.output);
    const std::vector<Verdict> verdicts = judge_records(outcome.records);
    out << report_formats().at("md").make.render({outcome.records, verdicts, {}});
    const bool measured = fs::exists(job.output / "kernels.csv");
    out << "\nFiles: " << job.output.string()
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
  for (Plan& plan : plans) {
    if (!options.executor.empty()) plan.executor.name = executors().at(options.executor).name;
    if (options.workers) plan.executor.workers = options.workers;
  }
  std::vector<ModelChecks> checks;
  for (const Plan& plan : plans) {
    checks.push_back(check_models(plan, ""));
    check_saves(plan, checks.back().sizes, "");
  }
  if (std::any_of(plans.begin(), plans.end(), runs_here)) check_device(options.device);
  for (size_t i = 0; i < plans.size(); ++i)
    if (runs_here(plans[i])) {
      skip_what_does_not_fit(plans[i], checks[i].sizes, options.device);
      skip_what_cannot_decode(plans[i], checks[i].generation, options.device);
    }
  return run_plans(plans, options, out, err);
}

}  // namespace gptqb
