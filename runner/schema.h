// The closed table of keys: name, type, range, default and meaning of everything an experiment file
// may say.
//
// One table serves reading (types and ranges), resolving (defaults), cells (a key's typed field),
// and printing
// (`gptq-bench schema`). A default is read from the typed struct it belongs to, so it is written
// down once.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/options.h"
#include "runner/cell.h"
#include "runner/yaml_tree.h"

namespace gptqb {

enum class KeyType {
  kBool,
  kInteger,
  kFloat,
  kText,
  kPath,       // text whose `${...}` stays unexpanded in a cell's identity
  kChoice,     // one of `words`
  kDataset,    // "c4", "c4@train", or {name, source, join, field}
  kMixture,    // a dataset, or a list of {dataset, share}
  kRules,      // `overrides`
  kStructure,  // a key with a shape of its own, read by experiment.cpp: sweep, cells, expect ...
};

// Whether a key takes one value or several.
enum class Arity { kOne, kList, kOneOrList };

enum class Scope {
  kDocument,  // of the file: name, tier, sweep ...
  kRun,       // changes how cells run, never what comes out: resume, limits, executor
  kCell,      // decides a cell's numbers, and is part of its identity
  kProduct,   // asks for something beside the cells: kernels, save
};

struct KeySpec {
  std::string key;  // dotted: "quant.bits"
  KeyType type = KeyType::kText;
  Scope scope = Scope::kCell;
  Arity arity = Arity::kOne;
  Range range;  // of numbers
  std::vector<std::string>
      words;  // kChoice: all values; numbers: words allowed beside them ("all", "-1")
  std::string default_text;      // as printed; "" if there is none
  nlohmann::json default_value;  // null: none
  std::string meaning;
  // Empty if every value works in this build; else the values that belong to later work (all but
  // the default, if it holds only "*").
  std::vector<std::string> planned;
  // Puts a checked value into the typed settings; empty for planned keys without a field yet.
  std::function<void(ResolvedSettings&, const nlohmann::json&)> bind;
};

// All keys, in the order in which they are printed and in which a cell's settings are listed.
const std::vector<KeySpec>& key_table();

// The entry of `key`, or null.
const KeySpec* find_key(const std::string& key);

// Whether `prefix` is a section: some key starts with `prefix` and a dot.
bool is_section(const std::string& prefix);

// "expected one of ...; got 'x'. Did you mean ...?" for `key` under `section` ("" at the top). A
// right key in a wrong section is recognized.
std::string unknown_key(const std::string& section, const std::string& key);

// The canonical value of `node` for `spec`, or nothing after a fault was added. Checks type and
// range and that every `${...}` can be expanded. Paths keep them; everything else is expanded.
std::optional<nlohmann::json> convert(const KeySpec& spec, const YamlNode& node, Faults& faults);

// A checked value as text for tables: "0.01", "true", "wikitext2, ptb-new".
std::string value_text(const nlohmann::json& value);

// If `value` of `spec` belongs to later work: "method.rows 8"; else "".
std::string planned_value(const KeySpec& spec, const nlohmann::json& value);

// The plain number of `text`, by YAML 1.2's core rules less octal, hex, inf, nan and leading zeros;
// locale-free.
std::optional<double> parse_number(const std::string& text);
std::optional<int64_t> parse_integer(const std::string& text);

// The table as Markdown, for `gptq-bench schema`.
std::string schema_markdown();

}  // namespace gptqb
