// compare: two sets of output folders, as a gate.
#include <filesystem>
#include <iterator>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/output_folders.h"
#include "runner/report/compare.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// A record that cannot be read may be the one that got worse.
std::vector<Record> records_of(const std::vector<std::string>& folders) {
  std::vector<Record> records;
  for (const std::string& folder : folders) {
    for (const fs::path& output : required_output_folders(folder)) {
      LoadedRecords loaded = load_records(output);
      if (!loaded.damaged.empty())
        throw Error(folder, "expected records that can be read, got " +
                                std::to_string(loaded.damaged.size()) +
                                " that cannot: " + join(loaded.damaged, "; "));
      std::move(loaded.records.begin(), loaded.records.end(), std::back_inserter(records));
    }
  }
  return records;
}

}  // namespace

int compare_command(const CompareCommandOptions& options, std::ostream& out) {
  std::vector<std::string> before = options.folders, after = options.newer;
  if (after.empty()) {
    if (before.size() != 2)
      throw Error("compare", "expected OLD and NEW, or OLD... --new NEW..., got " +
                                 std::to_string(before.size()) + " folders");
    after = {before.back()};
    before.pop_back();
  }
  const Comparison comparison =
      compare_records(records_of(before), records_of(after), options.compare);
  out << comparison_text(comparison, options.all);
  if (!options.junit.empty()) write_file_atomically(options.junit, junit_xml(comparison));
  return comparison.tripped() ? kExitFailed : kExitOk;
}

}  // namespace gptqb
