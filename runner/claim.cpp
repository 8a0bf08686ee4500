#include "runner/claim.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/add_once.h"
#include "common/statistics.h"
#include "runner/report/baseline.h"
#include "runner/report/number_format.h"
#include "runner/resolve.h"
#include "runner/schema.h"
#include "runner/short_paths.h"

namespace gptqb {

namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

bool has_all(const CellSettings& cell, const Named& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& setting) {
    const auto found = cell.find(setting.first);
    return found != cell.end() && found->second == setting.second;
  });
}

bool alike_but_for(const CellSettings& a, const CellSettings& b,
                   const std::set<std::string>& keys) {
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other != b.end() && other->second != value && !keys.contains(key)) return false;
  }
  return true;
}

// The 95 % interval of the mean loss of `of` less that of `against`, nats a token, on the windows
// of a perplexity that both saw; empty if there is none.
std::optional<PairedDifference> paired_loss(const Record& of, const Record& against,
                                            const std::string& metric) {
  constexpr const char* kPerplexity = "perplexity.";
  if (!metric.starts_with(kPerplexity)) return std::nullopt;
  if (!same_windows(of, against, metric.substr(std::string(kPerplexity).size())))
    return std::nullopt;
  return metric_difference(of, &against, metric);
}

bool below(double value, const std::optional<double>& most) { return !most || value <= *most; }
bool above(double value, const std::optional<double>& least) { return !least || value >= *least; }

ClaimOutcome outcome_of(const ClaimPart& part, const ClaimComparison& comparison) {
  const auto least = part.about_ratio() ? part.ratio_at_least : part.difference_at_least;
  const auto most = part.about_ratio() ? part.ratio_at_most : part.difference_at_most;
  const double low = comparison.low.value_or(comparison.estimate);
  const double high = comparison.high.value_or(comparison.estimate);
  if (above(low, least) && below(high, most)) return ClaimOutcome::kHolds;
  if (!above(high, least) || !below(low, most)) return ClaimOutcome::kFails;
  return ClaimOutcome::kUndecided;
}

ClaimComparison compare(const ClaimPart& part, const Record& of, const Record& against) {
  ClaimComparison result;
  result.of = &of;
  result.against = &against;
  const auto not_run = [&](const std::string& reason) {
    result.reason = reason;
    return result;
  };
  for (const Record* record : {&of, &against})
    if (record->status != CellStatus::kOk)
      return not_run(record->reason.empty() ? status_name(record->status) : record->reason);
  const auto ours = find_metric(of, part.metric), theirs = find_metric(against, part.metric);
  if (!ours || !theirs) return not_run("the record has no " + part.metric);
  if (!std::isfinite(ours->value) || !std::isfinite(theirs->value))
    return not_run(part.metric + " is not finite");
  result.of_value = ours->value;
  result.against_value = theirs->value;
  const bool ratio = part.about_ratio();
  if (ratio && theirs->value == 0) return not_run(part.metric + " is 0");
  result.estimate = ratio ? ours->value / theirs->value : ours->value - theirs->value;
  if (const auto loss = paired_loss(of, against, part.metric); loss && loss->half_width) {
    const auto of_ratio = [&](double nats) {
      return ratio ? std::exp(nats) : theirs->value * (std::exp(nats) - 1);
    };
    result.low = of_ratio(loss->mean - *loss->half_width);
    result.high = of_ratio(loss->mean + *loss->half_width);
  }
  result.outcome = outcome_of(part, result);
  return result;
}

std::string range_text(double low, double high) {
  if (low == high) return significant_text(low, 4);
  return significant_text(low, 4) + " to " + significant_text(high, 4);
}

std::string side_text(const Named& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += (text.empty() ? "" : ", ") + key + " " + value;
  return text;
}

// "perplexity.c4 of quant.bits 3 against quant.bits 4: ratio 1.02 to 1.1, asked for ratio at most
// 1"
std::string numbers_text(const PartVerdict& part) {
  std::optional<double> low, high;
  for (const ClaimComparison& each : part.comparisons) {
    if (each.outcome == ClaimOutcome::kNotRun) continue;
    low = std::min(low.value_or(each.estimate), each.estimate);
    high = std::max(high.value_or(each.estimate), each.estimate);
  }
  if (!low) return "";
  return part.part->metric + " of " + side_text(part.part->of) + " against " +
         side_text(part.part->against) + ": " +
         (part.part->about_ratio() ? "ratio " : "difference ") + range_text(*low, *high) +
         ", asked for " + bound_text(*part.part);
}

std::string models_text(const std::vector<const Record*>& rows) {
  std::set<std::string> paths;
  for (const Record* row : rows) paths.insert(row->setting("model.path"));
  std::map<std::string, std::string> names = short_paths(paths);
  std::vector<std::string> models;
  for (const Record* row : rows) {
    std::string name = names[row->setting("model.path")];
    if (name.empty()) name = row->setting("model.synthetic.like");
    if (!name.empty()) add_once(name, models);
  }
  return join(models, ", ");
}

}  // namespace

CellSettings completed(CellSettings settings) {
  const auto method = settings.find("method.name");
  if (method == settings.end() || method->second == "none") return settings;
  for (const KeySpec& spec : key_table())
    if (is_absent_at_default(spec.key) && !spec.default_value.is_null())
      settings.emplace(spec.key, value_text(spec.default_value));
  return settings;
}

std::vector<std::pair<size_t, size_t>> pairs_of(const ClaimPart& part,
                                                const std::vector<CellSettings>& cells) {
  std::set<std::string> named;
  for (const Named* side : {&part.of, &part.against})
    for (const auto& [key, value] : *side) named.insert(key);
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < cells.size(); ++i)
    for (size_t j = 0; j < cells.size(); ++j)
      if (i != j && has_all(cells[i], part.of) && has_all(cells[j], part.against) &&
          alike_but_for(cells[i], cells[j], named))
        pairs.emplace_back(i, j);
  return pairs;
}

const char* claim_word(ClaimOutcome outcome) {
  switch (outcome) {
    case ClaimOutcome::kHolds:
      return "holds";
    case ClaimOutcome::kFails:
      return "fails";
    case ClaimOutcome::kUndecided:
      return "undecided";
    case ClaimOutcome::kNotRun:
      return "not run";
  }
  return "";
}

std::string bound_text(const ClaimPart& part) {
  const bool ratio = part.about_ratio();
  const auto least = ratio ? part.ratio_at_least : part.difference_at_least;
  const auto most = ratio ? part.ratio_at_most : part.difference_at_most;
  const std::string what = ratio ? "ratio " : "difference ";
  if (least && most) return what + "from " + number_text(*least) + " to " + number_text(*most);
  if (least) return what + "at least " + number_text(*least);
  return what + "at most " + number_text(most.value_or(0));
}

std::string estimate_text(const ClaimComparison& comparison) {
  std::string text = significant_text(comparison.estimate, 4);
  if (comparison.low && comparison.high)
    text += " (" + range_text(*comparison.low, *comparison.high) + ")";
  return text;
}

ClaimVerdict judge_claim(const Claim& claim, const std::vector<const Record*>& rows) {
  std::vector<CellSettings> cells;
  for (const Record* row : rows)
    cells.push_back(completed({row->settings.begin(), row->settings.end()}));
  ClaimVerdict verdict;
  std::map<ClaimOutcome, size_t> counts;
  std::string absent = "no cells to compare";
  for (const ClaimPart& part : claim.parts) {
    verdict.parts.push_back({&part, {}});
    for (const auto& [of, against] : pairs_of(part, cells)) {
      verdict.parts.back().comparisons.push_back(compare(part, *rows[of], *rows[against]));
      const ClaimComparison& made = verdict.parts.back().comparisons.back();
      if (made.outcome == ClaimOutcome::kNotRun) absent = made.reason;
      ++counts[made.outcome];
    }
  }
  const size_t holds = counts[ClaimOutcome::kHolds], fails = counts[ClaimOutcome::kFails],
               undecided = counts[ClaimOutcome::kUndecided];
  const size_t made = holds + fails + undecided;
  // What is too close to tell is no evidence, so that most must speak and none may disagree.
  const auto most = [&](size_t count, size_t others) { return others == 0 && 2 * count > made; };
  verdict.word = made == 0            ? "not run"
                 : most(holds, fails) ? "holds"
                 : most(fails, holds) ? "fails"
                                      : "depends";
  verdict.sentence = claim.statement;
  if (const std::string models = models_text(rows); !models.empty())
    verdict.sentence += ", on " + models;
  verdict.sentence += ": " + verdict.word + ". ";
  if (made == 0) {
    verdict.sentence += absent.starts_with("not run: ") ? absent.substr(9) : absent;
    return verdict;
  }
  verdict.sentence += std::to_string(holds) + " of " + std::to_string(made) +
                      (made == 1 ? " comparison holds" : " comparisons hold");
  if (fails > 0)
    verdict.sentence += ", " + std::to_string(fails) + (fails == 1 ? " fails" : " fail");
  if (undecided > 0)
    verdict.sentence +=
        ", " + std::to_string(undecided) + (undecided == 1 ? " is" : " are") + " too close to tell";
  if (counts[ClaimOutcome::kNotRun] > 0)
    verdict.sentence += ", " + std::to_string(counts[ClaimOutcome::kNotRun]) + " could not be made";
  std::string numbers;
  for (const PartVerdict& part : verdict.parts)
    if (const std::string text = numbers_text(part); !text.empty())
      numbers += (numbers.empty() ? ": " : "; ") + text;
  verdict.sentence += numbers + ".";
  return verdict;
}

}  // namespace gptqb
