// A claim of practice, and what the cells of an experiment say to it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/record.h"

namespace gptqb {

using CellSettings = std::map<std::string, std::string>;  // dotted key, value as text

// `settings` with the keys that a cell leaves out where they say nothing (`quant.head: none`), so
// that a claim can name the cells without.
CellSettings completed(CellSettings settings);

// A comparison of one cell with another, made again for all cells that are named alike: every cell
// with the settings `of` beside every cell with the settings `against`, where the two differ in
// nothing else that both have.
std::vector<std::pair<size_t, size_t>> pairs_of(const ClaimPart& part,
                                                const std::vector<CellSettings>& cells);

// What a comparison says to the claim. `kUndecided`: the bound lies inside the interval.
enum class ClaimOutcome { kHolds, kFails, kUndecided, kNotRun };
const char* claim_word(ClaimOutcome outcome);  // "holds", "fails", "undecided", "not run"

struct ClaimComparison {
  const Record* of = nullptr;
  const Record* against = nullptr;
  double of_value = 0;
  double against_value = 0;
  // Of the values: their ratio, or their difference in the unit of the metric.
  double estimate = 0;
  // The 95 % interval of `estimate`, paired over the windows of a perplexity; empty for metrics
  // without windows.
  std::optional<double> low;
  std::optional<double> high;
  ClaimOutcome outcome = ClaimOutcome::kNotRun;
  std::string reason;  // of kNotRun
};

struct PartVerdict {
  const ClaimPart* part = nullptr;
  std::vector<ClaimComparison> comparisons;
};

struct ClaimVerdict {
  // "holds" if more than half of the comparisons hold and none fails, "fails" the other way round,
  // "not run" if none could be made, else "depends".
  std::string word;
  std::vector<PartVerdict> parts;
  // "The claim, on model m: word. 3 of 4 comparisons hold, ...": with the numbers.
  std::string sentence;
};

// Points into `claim` and `rows`, the records of one experiment.
ClaimVerdict judge_claim(const Claim& claim, const std::vector<const Record*>& rows);

// "ratio at most 1", "difference from 0 to 0.5".
std::string bound_text(const ClaimPart& part);
// "1.02 (1.01 to 1.03)"
std::string estimate_text(const ClaimComparison& comparison);

}  // namespace gptqb
