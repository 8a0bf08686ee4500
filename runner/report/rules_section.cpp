#include <algorithm>

#include "common/text.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// A rule (empty: none matched) and the layers it took, both in the order in which layers come.
using Hits = std::vector<std::pair<std::string, std::vector<std::string>>>;

Hits hits_of(const Record& record) {
  Hits hits;
  for (const LayerHealth& layer : record.layers) {
    auto found = std::find_if(hits.begin(), hits.end(),
                              [&](const auto& hit) { return hit.first == layer.rule; });
    if (found == hits.end()) found = hits.insert(hits.end(), {layer.rule, {}});
    found->second.push_back(layer.layer);
  }
  return hits;
}

std::string layers_text(const std::vector<std::string>& layers) {
  constexpr size_t kShown = 3;
  std::string text = std::to_string(layers.size()) + (layers.size() == 1 ? " layer" : " layers");
  for (size_t i = 0; i < layers.size() && i < kShown; ++i)
    text += (i ? ", " : layers.size() > kShown ? ", e.g. " : ": ") + layers[i];
  return text;
}

std::string bits_text(const Record& record) {
  std::vector<std::string> parts;
  for (const char* part : {"linear", "model"})
    if (const auto metric = find_metric(record, std::string("bits_per_weight.") + part))
      parts.push_back(fixed_text(metric->value, 3) +
                      (part == std::string("linear") ? " of the linears" : " of the model"));
  return parts.empty() ? "" : ", bits a weight " + join(parts, ", ");
}

}  // namespace

Section rules_section(const RecordPointers& rows) {
  std::vector<ReportItem> items;
  for (const Record* row : rows) {
    const Hits hits = hits_of(*row);
    if (std::all_of(hits.begin(), hits.end(), [](const auto& hit) { return hit.first.empty(); }))
      continue;
    ReportItem item{"", row->cell_id + " (" + cell_label(*row) + ")" + bits_text(*row)};
    for (const auto& [rule, layers] : hits)
      item.under.push_back({rule, (rule.empty() ? "no rule -> " : "-> ") + layers_text(layers)});
    items.push_back(std::move(item));
  }
  return {"rules", "Which rule took which layer", "", {}, std::move(items), ""};
}

}  // namespace gptqb
