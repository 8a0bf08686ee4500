// Which settings tell cells apart, and which all share.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/record.h"

namespace gptqb {

// Keys with two or more values among `records`, in the order they first appear. Absent is a
// value only where other cells of the same method have the key, so that `none`, which has no
// `quant.*`, makes nothing vary.
std::vector<std::string> varying_settings(const std::vector<const Record*>& records);

// Those of them that cell_label() does not say: the columns that tell cells of one label apart.
std::vector<std::string> varying_beside_label(const std::vector<const Record*>& records);

// The others, with their value, where at least one record has the key.
std::vector<std::pair<std::string, std::string>> shared_settings(
    const std::vector<const Record*>& records);

// Settings as the tables on `records` show them: of model.path what tells its models apart
// (short_paths.h), all others as they are.
class ShownSettings {
 public:
  explicit ShownSettings(const std::vector<const Record*>& records);
  // Of one of those records; "" if it has no such setting.
  std::string of(const Record& record, const std::string& key) const;

 private:
  std::map<std::string, std::string> models_;  // by model.path
};

// Records that differ in no setting but `keys`, two or more together: groups and their records in
// the order given.
std::vector<std::vector<const Record*>> alike_but_for(const std::vector<const Record*>& records,
                                                      const std::vector<std::string>& keys);

// What a table's cell says where there is nothing to say.
constexpr const char* kNothing = "–";
// `text`, or that.
std::string or_nothing(const std::string& text);

// Bits of a record's codes: those that it solved for, or that a synthetic model was made with; ""
// for a dense one.
std::string code_bits(const Record& record);

// The size of its groups as a column says it: "128", "row" for one a row, or kNothing.
std::string group_text(const Record& record);

// "gptq 4 bits, groups of 128" of a record; "none" for the dense model.
std::string cell_label(const Record& record);

// The label, then those of `settings` that the record has: ", method.damping 0.01".
std::string cell_words(const Record& record, const std::vector<std::string>& settings,
                       const ShownSettings& shown);

}  // namespace gptqb
