// An experiment file, read strictly: every key known, every value of its type and range, or one
// Error with all faults.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runner/claim_types.h"
#include "runner/expectation.h"
#include "runner/yaml_tree.h"

namespace gptqb {

// A checked value (schema.h, `convert`) and the place that set it.
struct Setting {
  nlohmann::json value;
  Position position;
};

// By dotted key.
using Settings = std::map<std::string, Setting>;

// A comparison of `claim`, and the settings that name its cells as they stand in the file.
struct ClaimSettings {
  ClaimPart part;
  Settings of;
  Settings against;
  Position position;
};

// One document of a file.
struct Experiment {
  std::string file;  // as it was named, for messages
  Position start;    // of the document
  std::string name;
  std::string tier;  // smoke, base, full
  Settings base;     // what every cell starts from, and what is asked beside cells
  std::vector<std::pair<std::string, std::vector<Setting>>> sweep;  // in the order of the file
  std::vector<Settings> cells;  // empty: one cell without settings of its own
  std::vector<std::pair<Settings, Position>> exclude;
  std::vector<Setting> seeds;                            // of calibration; empty: the cell's own
  Settings forced;                                       // --set: wins over all of the above
  std::vector<std::pair<Settings, Expectation>> expect;  // `where` and what is expected there
  std::string statement;                                 // of `claim`; empty: there is none
  std::vector<ClaimSettings> claim;
};

struct LoadOptions {
  std::vector<std::string> set;  // "quant.bits=3"; the value in YAML syntax
  std::string tier;              // only documents of this tier; empty: all
};

// The documents of `file` (parted by `---`) that belong to the tier; all of them are checked.
// Throws Error if the file cannot be read, is no YAML, or has faults: each is told with file, line
// and column.
std::vector<Experiment> load_experiments(const std::filesystem::path& file,
                                         const LoadOptions& options = {});

// The same from text; `file` stands for its name in messages.
std::vector<Experiment> parse_experiments(const std::string& text, const std::string& file,
                                          const LoadOptions& options = {});

}  // namespace gptqb
