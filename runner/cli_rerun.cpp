// rerun: the cell of a record once more, held against it.
#include <filesystem>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "runner/cell_run.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/report/environment_changes.h"
#include "runner/report/markdown_table.h"
#include "runner/rerun.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

std::string difference_table(const std::vector<Difference>& differences, const char* title) {
  MarkdownTable table;
  for (const char* column : {title, "record", "now"}) table.add_column(column);
  for (const Difference& difference : differences)
    table.add_row({difference.what, difference.before, difference.after});
  return table.text();
}

std::string environment_text(const Record& before, const Environment& now) {
  Record after = before;
  after.environment = now;
  std::vector<Difference> differences;
  for (const EnvironmentChange& change : environment_changes({before}, {after}))
    differences.push_back({change.what, change.before, change.after});
  if (differences.empty())
    return "Same environment: " + device_line(now) + ", " + version_line(now.build) + "\n";
  return difference_table(differences, "environment");
}

// Before any work: another model under the same name gives another number, and that is no news.
// What is read for that stays in `cache`.
void check_inputs(const Record& record, const Cell& cell, const RunOptions& options,
                  const std::string& path, InputCache& cache) {
  const std::vector<std::string> missing = missing_inputs(cell, options.data_root, options.base);
  if (!missing.empty())
    throw Error(path,
                "expected the inputs of its cell, got not all of them: " + join(missing, "; "));
  if (options.verify && !cell.model().synthetic.asked() && record.inputs.files.empty())
    throw Error(path,
                "expected full hashes of the model's files in the record for --verify, got none. "
                "They are recorded by run --verify");
  const PreparedCell prepared = prepare_cell(cell, cache, options);
  std::vector<std::string> sentences;
  for (const Difference& difference : input_differences(record.inputs, prepared.inputs))
    sentences.push_back(difference.what + " was " + difference.before + ", is " + difference.after);
  if (!sentences.empty())
    throw Error(path, "expected the inputs that the record was made from, got others: " +
                          join(sentences, "; "));
}

}  // namespace

int rerun_command(const std::string& path, const RunCommandOptions& options, std::ostream& out,
                  std::ostream& err) {
  const Record record = record_from_json(read_file(path), path);
  if (record.status == CellStatus::kSkipped)
    throw Error(path,
                "expected the record of a cell that ran, got a skipped one: " + record.reason);
  Plan plan;
  plan.name = record.experiment;
  plan.file = path;
  plan.cells.push_back({Cell::from_json(record.cell), "", {}});
  const Cell& cell = plan.cells[0].cell;

  RunCommandOptions rerun = options;
  rerun.fresh = true;
  rerun.device = one_device(rerun.device.empty() ? record.environment.device : rerun.device);
  if (rerun.output.empty()) rerun.output = "results/rerun-" + cell.id();
  const fs::path target = record_path(rerun.output, cell.id());
  if (fs::weakly_canonical(target) == fs::weakly_canonical(path))
    throw Error("--output", "expected another folder than the record's own, got " + rerun.output +
                                ", where it would be overwritten");
  check_device(rerun.device);
  RunOptions run_options;
  run_options.device = rerun.device;
  run_options.data_root = data_root();
  run_options.verify = rerun.verify;
  InputCache cache(run_options.data_root, run_options.base);
  if (!cell.measures_kernels()) check_inputs(record, cell, run_options, path, cache);
  rerun.inputs = &cache;
  out << environment_text(record, capture_environment(rerun.device, {})) << '\n';
  run_plans({plan}, rerun, out, err);

  const Record now = record_from_json(read_file(target), target.string());
  const std::vector<Difference> differences = result_differences(record, now);
  if (differences.empty()) {
    out << "\nIdentical to " << path << ": every metric, sample and layer but times and peaks.\n";
    return kExitOk;
  }
  out << "\nNot what " << path << " holds:\n\n" << difference_table(differences, "result");
  return kExitFailed;
}

}  // namespace gptqb
