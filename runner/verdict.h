// Published or promised values held against what was measured.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan.h"
#include "runner/record.h"

namespace gptqb {

enum class Outcome { kPass, kFail, kNotRun, kNotSupported, kNotComparable };
inline constexpr std::array kOutcomes = {Outcome::kPass, Outcome::kFail, Outcome::kNotRun,
                                         Outcome::kNotSupported, Outcome::kNotComparable};
const char* outcome_name(
    Outcome outcome);  // "PASS", "FAIL", "not run", "not supported yet", "not comparable"

// Text of a table's cell that ends in the name of an outcome, "5.85 PASS": what is before it and
// the outcome. Without one all of it is `text`.
struct JudgedText {
  std::string text;
  std::optional<Outcome> outcome;
};
// Of "5.85 PASS; 5.9 FAIL", one for each value.
std::vector<JudgedText> split_judged(const std::string& cell);

struct Verdict {
  std::string cell_id;
  std::string experiment;
  std::string metric;
  std::string expected;             // "5.85 +- 0.05", "at most 15"
  std::optional<double> measured;   // empty: there is no number
  std::optional<double> deviation;  // measured minus the value or bound
  std::string deviation_text;       // "+0.02 (+0.3 %)"; for a published time "1.7 x"
  Outcome outcome = Outcome::kNotRun;
  std::string reason;  // empty for PASS
  std::string source;  // and the expectation's note
  std::string where;
};

// Judges one expectation of a cell by its record (null: the cell has none yet).
//   FAIL            outside the tolerance or bound, or not finite; also a finished cell whose
//   record
//                   lacks the metric: a gate that cannot be judged holds nothing
//   not run         no record, or a failed or skipped cell
//   not supported   the cell was skipped because this program cannot do it yet
//   not comparable  a published time (is_time() with `value`: a ratio is given instead, both
//   devices
//                   matter), a synthetic model, or other data than the value stands on (`variant`)
// A value on the border of its tolerance passes (by a rounding error of 1e-12 of the value).
Verdict judge(const Expectation& expectation, const std::string& cell_id,
              const std::string& experiment, const Record* record);

// The expectations that the records themselves carry: tables are rebuilt with the verdicts of their
// run.
std::vector<Verdict> judge_records(const std::vector<Record>& records);

// Whether any verdict is FAIL: the exit code is then 1.
bool any_failed(const std::vector<Verdict>& verdicts);

}  // namespace gptqb
