// Methods by bits against models or datasets, ours beside what was published.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/add_once.h"
#include "common/text.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// What one column stands for: a metric of one model's cells.
struct PaperColumn {
  std::string model;
  std::string metric;
  std::string title;
};

bool names_the_model(const std::string& key) { return key.starts_with("model."); }

// As tables name its folder, or the published shape of made-up weights.
std::string model_of(const Record& record, const ShownSettings& texts) {
  if (const std::string path = texts.of(record, "model.path"); !path.empty()) return path;
  std::string name = record.setting("model.synthetic.like");
  if (name.empty()) name = "synthetic " + record.setting("model.synthetic.architecture");
  const std::string layers = record.setting("model.synthetic.layers");
  return layers.empty() ? name : name + ", " + layers + " blocks";
}

std::vector<std::string> metrics_of(const RecordPointers& rows) {
  std::vector<std::string> metrics;
  for (const Record* row : rows)
    for (const Metric& metric : row->metrics)
      if (metric.name.starts_with("perplexity.")) add_once(metric.name, metrics);
  for (const Record* row : rows)
    for (const Expectation& expectation : row->expectations)
      if (is_published_value(expectation)) add_once(expectation.metric, metrics);
  const auto timed = [](const Record* row) {
    return find_metric(*row, "seconds.quantize").has_value();
  };
  if (metrics.empty() && std::any_of(rows.begin(), rows.end(), timed))
    metrics.emplace_back("seconds.quantize");
  return metrics;
}

// "perplexity" of "perplexity.wikitext2".
std::string family_of(const std::string& metric) { return metric.substr(0, metric.find('.')); }

std::string without_family(const std::string& metric) {
  const size_t point = metric.find('.');
  return point == std::string::npos ? metric : metric.substr(point + 1);
}

// The dense model by the width of its weights, the last ones by 0.
double width_of(const Record& record) {
  const std::string bits = code_bits(record);
  if (record.setting("method.name") == "none" && bits.empty()) return 100;
  if (bits == "ternary") return 1.5;
  if (bits.empty()) return record.setting("method.name") == "llm_int8" ? 8 : 0;
  return std::strtod(bits.c_str(), nullptr);
}

std::string bits_text(const Record& record) {
  const std::string bits = code_bits(record);
  if (record.setting("method.name") == "none" && bits.empty()) {
    const std::string dtype = record.setting("model.dtype");
    return dtype == "float32" ? "32" : dtype.ends_with("16") ? "16" : kNothing;
  }
  if (record.setting("method.name") == "llm_int8") return "W8A8";
  return or_nothing(bits);
}

// Two digits after the point, as the papers print perplexities; the first ones of a large value.
std::string value_text(const std::string& metric, double value) {
  if (family_of(metric) == "perplexity" && std::isfinite(value) && value < 1000)
    return fixed_text(value, 2);
  return significant_text(value, 4);
}

std::string ours_text(const Record& record, const std::string& metric) {
  if (record.status == CellStatus::kFailed) return "failed";
  const auto found = find_metric(record, metric);
  return found ? value_text(metric, found->value) : kNothing;
}

std::string published_text(const Record& record, const std::string& metric,
                           const std::vector<Verdict>& verdicts) {
  std::vector<std::string> parts;
  for (const Expectation& expectation : record.expectations) {
    if (expectation.metric != metric || !is_published_value(expectation)) continue;
    std::string text = significant_text(*expectation.value, 5);
    // The number as it was printed, where it was printed short.
    if (const std::string plain = number_text(*expectation.value); plain.size() < text.size())
      text = plain;
    for (const Verdict& verdict : verdicts)
      if (verdict.cell_id == record.cell_id && verdict.metric == metric &&
          verdict.where == expectation.where && verdict.source.starts_with(expectation.source)) {
        text += std::string(" ") + outcome_name(verdict.outcome);
        break;
      }
    parts.push_back(text);
  }
  return or_nothing(join(parts, "; "));
}

// Columns with cells of one metric family.
Section table_of(const RecordPointers& rows, const std::vector<Verdict>& verdicts,
                 const std::vector<PaperColumn>& columns, const std::string& title) {
  std::vector<std::string> settings = varying_beside_label(rows);
  std::erase_if(settings, names_the_model);
  const ShownSettings shown(rows);
  // A row is all that tells cells apart, but for the model.
  std::map<std::vector<std::string>, RecordPointers> cells;
  std::vector<std::vector<std::string>> order;
  RecordPointers sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Record* a, const Record* b) { return width_of(*a) > width_of(*b); });
  for (const Record* row : sorted) {
    std::vector<std::string> key = {row->setting("method.name"), bits_text(*row), group_text(*row)};
    for (const std::string& setting : settings) {
      const std::string text = row->setting(setting);
      key.push_back(or_nothing(text));
    }
    if (!cells.contains(key)) order.push_back(key);
    cells[key].push_back(row);
  }
  std::vector<bool> published;
  for (const PaperColumn& column : columns)
    published.push_back(std::any_of(rows.begin(), rows.end(), [&](const Record* row) {
      return model_of(*row, shown) == column.model &&
             std::any_of(row->expectations.begin(), row->expectations.end(),
                         [&](const Expectation& expectation) {
                           return expectation.metric == column.metric &&
                                  is_published_value(expectation);
                         });
    }));

  ReportTable table;
  table.add_column("method");
  table.add_column("bits", true);
  table.add_column("group", true);
  for (const std::string& setting : settings) table.add_column(setting);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!published[i]) {
      table.add_column(columns[i].title, true);
      continue;
    }
    table.add_column({"ours", true, false, columns[i].title});
    table.add_column({"published", true, true, columns[i].title});
  }
  std::string bits_before;
  for (const auto& key : order) {
    std::vector<std::string> texts = key;
    for (size_t i = 0; i < columns.size(); ++i) {
      const RecordPointers& of_row = cells[key];
      const auto found = std::find_if(of_row.begin(), of_row.end(), [&](const Record* row) {
        return model_of(*row, shown) == columns[i].model;
      });
      const bool any = found != of_row.end();
      texts.push_back(any ? ours_text(**found, columns[i].metric) : kNothing);
      if (published[i])
        texts.push_back(any ? published_text(**found, columns[i].metric, verdicts) : kNothing);
    }
    if (!bits_before.empty() && key[1] != bits_before) table.add_break();
    bits_before = key[1];
    table.add_row(std::move(texts));
  }
  return {"paper", title, "", std::move(table), {}, ""};
}

std::string family_title(const std::string& family) {
  if (family == "perplexity") return "Perplexity";
  if (family == "seconds") return "Time, seconds";
  return family;
}

}  // namespace

bool is_published_value(const Expectation& expectation) {
  return expectation.value && !expectation.metric.starts_with("layer.");
}

std::vector<Section> paper_sections(const RecordPointers& rows,
                                    const std::vector<Verdict>& verdicts) {
  std::vector<std::string> models;
  const ShownSettings shown(rows);
  for (const Record* row : rows) add_once(model_of(*row, shown), models);
  const std::vector<std::string> metrics = metrics_of(rows);
  std::vector<Section> sections;
  if (models.size() > 1) {
    for (const std::string& metric : metrics) {
      std::vector<PaperColumn> columns;
      for (const std::string& model : models) columns.push_back({model, metric, model});
      const std::string title = family_title(family_of(metric)) + ": " + without_family(metric);
      sections.push_back(table_of(rows, verdicts, columns, title));
    }
    return sections;
  }
  std::vector<std::string> families;
  for (const std::string& metric : metrics) add_once(family_of(metric), families);
  for (const std::string& family : families) {
    std::vector<PaperColumn> columns;
    for (const std::string& metric : metrics)
      if (family_of(metric) == family)
        columns.push_back({models.front(), metric, without_family(metric)});
    sections.push_back(
        table_of(rows, verdicts, columns, family_title(family) + " of " + models.front()));
  }
  return sections;
}

}  // namespace gptqb
