// An experiment file, read strictly: every key known, every value of its type and range, or one Error with all faults.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runner/yaml_tree.h"

namespace gptqb {

// Dotted keys and the checked nodes that set them.
using SettingNodes = std::map<std::string, YamlNode>;

// One document of a file.
struct Experiment {
  std::filesystem::path file;
  std::string name;
  std::string tier;     // smoke, base, full
  bool resume = true;
  SettingNodes base;    // what every cell starts from
  std::vector<std::pair<std::string, std::vector<YamlNode>>> sweep;  // dotted key, values; in the order of the file
  std::vector<SettingNodes> cells;    // empty: one cell without settings of its own
  std::vector<SettingNodes> exclude;
  std::vector<YamlNode> seeds;
  SettingNodes forced;  // --set: wins over everything
  std::vector<YamlNode> expect;       // checked, in the order of the file
  std::vector<std::string> sections;  // parts of the file that need no model: "kernels", "save"
  Position start;       // of the document
};

struct LoadOptions {
  std::vector<std::string> set;  // "quant.bits=3"; the value in YAML syntax
  std::string tier;              // only documents of this tier; empty: all
};

// All documents of `file` (parted by `---`), those of other tiers left out. Throws Error: the file cannot be read,
// is no YAML, or has faults; every fault is listed as file:line:column.
std::vector<Experiment> load_experiments(const std::filesystem::path& file, const LoadOptions& options = {});

// The same from text; `name` stands for the file in messages.
std::vector<Experiment> parse_experiments(const std::string& text, const std::string& name,
                                          const LoadOptions& options = {});

}  // namespace gptqb
