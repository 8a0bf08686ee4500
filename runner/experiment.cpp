#include "runner/experiment.h"

#include <algorithm>
#include <optional>
#include <regex>

#include "common/atomic_file.h"
#include "common/text.h"
#include "runner/claim_reader.h"
#include "runner/expect_reader.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

using nlohmann::json;

// Where a map of keys stands decides which of them it may hold.
enum class Place {
  kDocument,     // the document itself; structures are read elsewhere
  kCommandLine,  // --set
  kCell,         // sweep, cells, exclude, where: only what makes a cell
};

class Reader {
 public:
  Reader(const std::string& file, const LoadOptions& options) : file_(file), options_(options) {}

  std::vector<Experiment> read(const std::string& text) {
    const std::vector<YamlNode> documents = parse_yaml(text, file_, faults_);
    if (documents.empty()) faults_.raise(file_);
    if (documents.empty())
      throw Error(file_,
                  "expected an experiment, got an empty file. `gptq-bench schema` lists the keys");
    std::vector<Experiment> experiments;
    for (const YamlNode& document : documents) experiments.push_back(read_document(document));
    faults_.raise(file_);
    if (!options_.tier.empty())
      std::erase_if(experiments,
                    [&](const Experiment& each) { return each.tier != options_.tier; });
    return experiments;
  }

 private:
  Experiment read_document(const YamlNode& document) {
    Experiment result;
    result.file = file_;
    result.start = document.position;
    if (!document.is_map()) {
      faults_.add(document.position, "", "expected a map of keys, got " + document.describe());
      return result;
    }
    flatten(document, "", Place::kDocument, result.base);
    if (const YamlNode* evaluate = document.find("evaluate")) read_evaluate(*evaluate, result.base);
    if (const YamlNode* sweep = document.find("sweep")) read_sweep(*sweep, "", result);
    if (const YamlNode* cells = document.find("cells"))
      for (const YamlNode& item : list_of("cells", *cells)) {
        result.cells.emplace_back();
        read_map("cells", item, result.cells.back());
      }
    if (const YamlNode* exclude = document.find("exclude"))
      for (const YamlNode& item : list_of("exclude", *exclude)) {
        result.exclude.emplace_back(Settings{}, item.position);
        read_map("exclude", item, result.exclude.back().first);
        if (result.exclude.back().first.empty())
          faults_.add(item.position, "exclude", "expected keys that name cells, got none");
      }
    if (const YamlNode* seeds = document.find("seeds"))
      for (const YamlNode& item : list_of("seeds", *seeds))
        if (const auto value = convert(*find_key("calibration.seed"), item, faults_))
          result.seeds.push_back({*value, item.position});
    if (const YamlNode* expect = document.find("expect"))
      for (const YamlNode& item : list_of("expect", *expect))
        read_expectation(item, where_reader("expect.where"), faults_, result);
    if (const YamlNode* claim = document.find("claim"))
      read_claim(*claim, where_reader("claim.parts"), faults_, result);
    read_command_line(result);
    check_document(result);
    return result;
  }

  // `node`'s items; none after a fault.
  std::vector<YamlNode> list_of(const std::string& key, const YamlNode& node) {
    if (node.is_list()) return node.items;
    faults_.add(node.position, key, "expected a list, got " + node.describe());
    return {};
  }

  void read_map(const std::string& key, const YamlNode& node, Settings& out) {
    if (node.is_map())
      flatten(node, "", Place::kCell, out);
    else
      faults_.add(node.position, key, "expected a map of keys, got " + node.describe());
  }

  // For maps of settings that name cells.
  ReadSettings where_reader(const std::string& key) {
    return [this, key](const YamlNode& node, Settings& out) { read_map(key, node, out); };
  }

  // Reports `full`, found under `prefix` ("quant."), as unknown.
  void unknown(const std::string& full, const std::string& prefix, const Position& position) {
    const size_t dot = full.rfind('.');
    std::string section = dot == std::string::npos ? "" : full.substr(0, dot);
    if (!section.empty() && !is_section(section))
      section = prefix.substr(0, prefix.size() - !prefix.empty());
    const std::string key = full.substr(section.empty() ? 0 : section.size() + 1);
    faults_.add(position, full, unknown_key(section, key));
  }

  void flatten(const YamlNode& map, const std::string& prefix, Place place, Settings& out) {
    for (const YamlEntry& entry : map.entries) {
      const std::string full = prefix + entry.key;
      if (full == "compat" && entry.value.is_scalar()) {
        set("compat.base", entry.position, entry.value, place, out);
      } else if (find_key(full) != nullptr) {
        set(full, entry.position, entry.value, place, out);
      } else if (is_section(full)) {
        if (entry.value.is_map())
          flatten(entry.value, full + ".", place, out);
        else
          faults_.add(entry.value.position, full,
                      "expected a map of keys of '" + full + "', got " + entry.value.describe());
      } else {
        unknown(full, prefix, entry.position);
      }
    }
  }

  void set(const std::string& key, const Position& position, const YamlNode& node, Place place,
           Settings& out) {
    const KeySpec& spec = *find_key(key);
    if (spec.type == KeyType::kStructure) {
      if (place == Place::kDocument) return;
      faults_.add(position, key,
                  "expected a key of a cell, got '" + key + "'. It belongs at the top of the file");
      return;
    }
    if (place == Place::kCell && spec.scope != Scope::kCell) {
      faults_.add(
          position, key,
          "expected a key of a cell, got '" + key + "'. It is the same for all cells of a file");
      return;
    }
    if (const auto known = out.find(key); known != out.end()) {
      faults_.add(position, key,
                  "expected each key once, got '" + key + "' again: it is already set at " +
                      known->second.position.text());
      return;
    }
    if (const auto value = convert(spec, node, faults_)) out[key] = {*value, node.position};
  }

  // A list of `name: {options}`; the options become keys `evaluate.<name>.<option>`.
  void read_evaluate(const YamlNode& node, Settings& out) {
    for (const YamlNode& item : list_of("evaluate", node)) {
      if (!item.is_map()) {
        faults_.add(
            item.position, "evaluate",
            "expected an evaluator with its options (perplexity: {datasets: [wikitext2]}), got " +
                item.describe());
        continue;
      }
      for (const YamlEntry& entry : item.entries) {
        const std::string section = "evaluate." + entry.key;
        if (!is_section(section)) {
          unknown(section, "evaluate.", entry.position);
        } else if (!entry.value.is_map() && entry.value.kind != YamlNode::Kind::kNull) {
          faults_.add(entry.value.position, section,
                      "expected a map of options, got " + entry.value.describe());
        } else {
          flatten(entry.value, section + ".", Place::kDocument, out);
          add_evaluator_default(section, entry.position, out);
        }
      }
    }
  }

  // An evaluator without options must not vanish: its first key with a default stands for it.
  void add_evaluator_default(const std::string& section, const Position& position, Settings& out) {
    for (const KeySpec& spec : key_table()) {
      if (spec.key.compare(0, section.size() + 1, section + ".") != 0) continue;
      if (out.count(spec.key) > 0) return;
    }
    for (const KeySpec& spec : key_table()) {
      if (spec.key.compare(0, section.size() + 1, section + ".") != 0 ||
          spec.default_value.is_null())
        continue;
      out[spec.key] = {spec.default_value, position};
      return;
    }
    faults_.add(position, section, "expected options, got none");
  }

  void read_sweep(const YamlNode& map, const std::string& prefix, Experiment& out) {
    if (!map.is_map()) {
      faults_.add(map.position, "sweep",
                  "expected a map of dotted keys to lists, got " + map.describe());
      return;
    }
    for (const YamlEntry& entry : map.entries) {
      std::string full = prefix + entry.key;
      if (full == "compat") full = "compat.base";
      const KeySpec* spec = find_key(full);
      if (spec == nullptr && is_section(full) && entry.value.is_map()) {
        read_sweep(entry.value, full + ".", out);
      } else if (spec == nullptr) {
        unknown(full, prefix, entry.position);
      } else if (spec->scope != Scope::kCell) {
        faults_.add(entry.position, full,
                    "expected a key of a cell, got '" + full + "'. It cannot be swept");
      } else if (!entry.value.is_list() || entry.value.items.empty()) {
        faults_.add(entry.value.position, full,
                    "expected a list of values to sweep, got " +
                        (entry.value.is_list() ? "an empty one" : entry.value.describe()));
      } else {
        for (const auto& known : out.sweep)
          if (known.first == full)
            faults_.add(entry.position, full, "expected this key once in sweep, got it twice");
        std::vector<Setting> values;
        for (const YamlNode& item : entry.value.items)
          if (const auto value = convert(*spec, item, faults_))
            values.push_back({*value, item.position});
        out.sweep.emplace_back(full, std::move(values));
      }
    }
  }

  void read_command_line(Experiment& out) {
    for (const std::string& option : options_.set) {
      Position position;
      position.file = "--set " + option;
      const size_t equals = option.find('=');
      if (equals == std::string::npos || equals == 0) {
        faults_.add(position, "", "expected KEY=VALUE, got '" + option + "'");
        continue;
      }
      Faults syntax;
      std::vector<YamlNode> values = parse_yaml(option.substr(equals + 1), position.file, syntax);
      if (!syntax.empty() || values.size() > 1) {
        faults_.add(position, "",
                    "expected a value in YAML syntax, got '" + option.substr(equals + 1) + "'");
        continue;
      }
      YamlNode value = values.empty() ? YamlNode{} : values[0];
      forget_places(value, position);
      const std::string key =
          option.substr(0, equals) == "compat" ? "compat.base" : option.substr(0, equals);
      const KeySpec* spec = find_key(key);
      if (spec == nullptr) {
        if (is_section(key))
          faults_.add(position, "",
                      "expected a key, got the section '" + key + "'. Set its keys one by one");
        else
          unknown_on_command_line(key, position);
        continue;
      }
      Settings checked;
      set(key, position, value, Place::kCommandLine, checked);
      for (auto& [name, setting] : checked)
        (spec->scope == Scope::kCell ? out.forced : out.base)[name] = setting;
    }
  }

  void unknown_on_command_line(const std::string& key, const Position& position) {
    const size_t dot = key.rfind('.');
    const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
    if (is_section(section))
      faults_.add(position, "", unknown_key(section, key.substr(dot + 1)));
    else
      faults_.add(position, "", unknown_key("", key));
  }

  static void forget_places(YamlNode& node, const Position& position) {
    node.position = position;
    for (YamlNode& item : node.items) forget_places(item, position);
    for (YamlEntry& entry : node.entries) {
      entry.position = position;
      forget_places(entry.value, position);
    }
  }

  // Whether every cell gets `key` from somewhere.
  static bool always_set(const Experiment& out, const std::string& key) {
    if (out.base.count(key) > 0 || out.forced.count(key) > 0) return true;
    for (const auto& [name, values] : out.sweep)
      if (name == key) return true;
    return !out.cells.empty() &&
           std::all_of(out.cells.begin(), out.cells.end(),
                       [&](const Settings& cell) { return cell.count(key) > 0; });
  }

  static bool has_section(const Settings& settings, const std::string& section) {
    const auto first = settings.lower_bound(section + ".");
    return first != settings.end() &&
           first->first.compare(0, section.size() + 1, section + ".") == 0;
  }

  void check_document(Experiment& out) {
    const auto name = out.base.find("name");
    if (name != out.base.end()) {
      out.name = name->second.value.get<std::string>();
      if (!std::regex_match(out.name, std::regex("[a-z0-9_-]+")))
        faults_.add(name->second.position, "name",
                    "expected lower-case letters, digits, '_' and '-', got '" + out.name +
                        "'. It names a folder");
    } else if (!faulty("name")) {
      faults_.add(out.start, "name",
                  "expected a `name`, got none. It names the folder of the results");
    }
    const auto tier = out.base.find("tier");
    out.tier = tier == out.base.end() ? "full" : tier->second.value.get<std::string>();

    for (const auto& [key, values] : out.sweep) {
      for (const Settings& cell : out.cells)
        if (const auto both = cell.find(key); both != cell.end())
          faults_.add(both->second.position, key,
                      "expected a key in `sweep` or in `cells`, got '" + key +
                          "' in both. A cell's value would be lost");
      if (key == "calibration.seed" && !out.seeds.empty())
        faults_.add(out.seeds[0].position, "seeds",
                    "expected seeds in one place, got `seeds` beside a sweep of calibration.seed");
    }
    if (faulty("method.name") || faulty("model") || faulty("method")) return;
    const bool products = has_section(out.base, "kernels") || has_section(out.base, "save");
    const bool any_cell = has_section(out.base, "model") || has_section(out.base, "method") ||
                          !out.sweep.empty() || !out.cells.empty();
    if (products && !any_cell) return;
    if (!always_set(out, "method.name"))
      faults_.add(out.start, "method.name",
                  "expected a `method.name` for every cell, got none. Add method: {name: gptq}, or "
                  "sweep it");
    const bool synthetic =
        always_set(out, "model.synthetic.like") || always_set(out, "model.synthetic.architecture");
    if (!always_set(out, "model.path") && !synthetic)
      faults_.add(out.start, "model.path",
                  "expected a `model.path` for every cell, got none. Add model: {path: FOLDER}, or "
                  "model: {synthetic: {like: NAME}} to measure time and memory");
    if (out.base.count("model.path") > 0 && has_section(out.base, "model.synthetic"))
      faults_.add(out.base["model.path"].position, "model.path",
                  "expected one of model.path and model.synthetic, got both");
  }

  // Whether a fault was already found at this key or below it: then its absence is no further
  // fault.
  bool faulty(const std::string& key) const { return faults_.mentions(key); }

  std::string file_;
  const LoadOptions& options_;
  Faults faults_;
};

}  // namespace

std::vector<Experiment> parse_experiments(const std::string& text, const std::string& file,
                                          const LoadOptions& options) {
  return Reader(file, options).read(text);
}

std::vector<Experiment> load_experiments(const std::filesystem::path& file,
                                         const LoadOptions& options) {
  return parse_experiments(read_file(file), file.string(), options);
}

}  // namespace gptqb
