// What the cells say to the claim of their experiment: a sentence, then every comparison.
#include <algorithm>

#include "runner/claim.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// The claims of `rows`, each once: two tiers of an experiment may claim different things.
std::vector<Claim> claims_of(const RecordPointers& rows) {
  std::vector<Claim> claims;
  for (const Record* row : rows)
    if (row->claim && std::find(claims.begin(), claims.end(), *row->claim) == claims.end())
      claims.push_back(*row->claim);
  return claims;
}

void add_rows(const PartVerdict& part, const std::vector<std::string>& settings,
              const ShownSettings& texts, ReportTable& table) {
  for (const ClaimComparison& each : part.comparisons) {
    const bool made = each.outcome != ClaimOutcome::kNotRun;
    table.add_row({part.part->metric, cell_words(*each.of, settings, texts),
                   cell_words(*each.against, settings, texts),
                   made ? significant_text(each.of_value, 5) : "–",
                   made ? significant_text(each.against_value, 5) : "–",
                   made ? estimate_text(each) : "–", bound_text(*part.part),
                   made ? claim_word(each.outcome) : "not run: " + each.reason});
  }
}

}  // namespace

std::vector<Section> claim_sections(const RecordPointers& rows) {
  std::vector<Section> sections;
  for (const Claim& claim : claims_of(rows)) {
    RecordPointers concerned;
    for (const Record* row : rows)
      if (row->claim == claim) concerned.push_back(row);
    const ClaimVerdict verdict = judge_claim(claim, concerned);
    ReportTable table;
    for (const char* title : {"metric", "cell", "against"}) table.add_column(title);
    for (const char* title : {"its value", "the other's", "ratio or difference"})
      table.add_column(title, true);
    for (const char* title : {"asked for", "outcome"}) table.add_column(title);
    const std::vector<std::string> settings = varying_beside_label(concerned);
    const ShownSettings texts(concerned);
    for (const PartVerdict& part : verdict.parts) add_rows(part, settings, texts, table);
    sections.push_back(
        {"claim",
         "Claim",
         verdict.sentence,
         std::move(table),
         {},
         "Ratios and differences of a perplexity stand with their 95 % interval, paired over the "
         "same windows; a comparison whose bound lies inside it is undecided."});
  }
  return sections;
}

}  // namespace gptqb
