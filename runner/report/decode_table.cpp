// What models took for each token that they wrote: times, memory, and the speed-up over the dense
// model of the same run.
#include <algorithm>
#include <cmath>
#include <set>

#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

constexpr const char* kLegend =
    "ms per token: median time of a step, in which each sequence of the batch gets a token, until "
    "the tokens are on the host. GB: weights, cache of keys and values, and activations, as "
    "planned; device peak: the most that the cell took there, measured. GB read: what a step reads "
    "at least, each weight once and the cache as far as "
    "attention looks; % of read: that, of what a plain read of memory reaches in the same time in "
    "the same run. vs dense: the dense model's ms per token over these, of the same batch and "
    "lengths; between brackets the dense 10th percentile over this 90th, and the dense 90th over "
    "this 10th. Checked tokens: those compared with a recomputation of the whole text without a "
    "cache before anything was timed. Extrapolated: measured on some blocks of a model and scaled "
    "by what a step of all "
    "blocks reads; never measured.";

const char* const kLengths[] = {"evaluate.decode_latency.prompt",
                                "evaluate.decode_latency.generate",
                                "evaluate.decode_latency.teacher_forced"};

// Decides which model it is, beside its weights.
const char* const kSynthetic[] = {"like",  "architecture", "hidden_size", "intermediate_size",
                                  "heads", "kv_heads",     "vocab_size"};

double value(const Record& record, const std::string& name) {
  const auto metric = find_metric(record, name);
  return metric ? metric->value : std::nan("");
}

std::string prefix(int64_t batch) { return "decode.batch" + std::to_string(batch) + "."; }

std::set<int64_t> batches_of(const Record& record) {
  std::set<int64_t> batches;
  for (const Metric& metric : record.metrics)
    if (metric.name.starts_with("decode.batch") && metric.name.ends_with(".ms_per_token"))
      batches.insert(std::stoll(metric.name.substr(std::string("decode.batch").size())));
  return batches;
}

// Whether linears were computed from codes.
bool from_codes(const Record& record) {
  const std::string backend = record.setting("model.backend");
  return record.setting("method.name") == "none" ? backend == "packed" : backend != "dense";
}

// "float16", "4 bits, groups of 128", "4.25 bits".
std::string weights_text(const Record& record) {
  const std::string dtype = record.setting("model.dtype");
  if (!from_codes(record)) return dtype == "auto" ? "dense" : dtype;
  const std::string bits = code_bits(record);
  if (bits.empty()) return fixed_text(value(record, "bits_per_weight.linear"), 2) + " bits";
  const std::string group = group_text(record);
  return bits + " bits, " + (group == "row" ? "whole rows" : "groups of " + group);
}

double parameters(const Record& record) {
  return std::round(8 * value(record, "bytes.weights") / value(record, "bits_per_weight.model"));
}

// Of one model, whatever its weights are kept as; `whole`: all its blocks on both sides.
bool same_model(const Record& a, const Record& b, bool whole) {
  const auto same = [&](const std::string& key) { return a.setting(key) == b.setting(key); };
  if (is_synthetic(a) != is_synthetic(b)) return false;
  if (!is_synthetic(a))
    return same("model.path") ||
           (a.inputs.architecture == b.inputs.architecture && parameters(a) == parameters(b));
  for (const char* key : kSynthetic)
    if (!same(std::string("model.synthetic.") + key)) return false;
  return !whole || same("model.synthetic.layers");
}

struct DenseTime {
  double median = 0, p10 = 0, p90 = 0;  // ms
  bool extrapolated = false;
  std::string dtype;
};

std::optional<DenseTime> dense_time(const Record& record, int64_t batch,
                                    const RecordPointers& rows) {
  const std::string at = prefix(batch);
  for (const bool whole : {true, false})
    for (const Record* row : rows) {
      if (from_codes(*row) || row->setting("method.name") != "none" ||
          !same_model(*row, record, whole) ||
          row->environment.device != record.environment.device ||
          row->environment.gpu != record.environment.gpu || !find_metric(*row, at + "ms_per_token"))
        continue;
      if (std::any_of(std::begin(kLengths), std::end(kLengths),
                      [&](const char* key) { return row->setting(key) != record.setting(key); }))
        continue;
      double scale = 1;
      if (!whole) {
        // Some blocks stand only for all of them.
        if (find_metric(record, at + "ms_per_token_extrapolated")) continue;
        const auto all = find_metric(*row, at + "ms_per_token_extrapolated");
        if (!all) continue;
        scale = all->value / value(*row, at + "ms_per_token");
      }
      return DenseTime{
          scale * value(*row, at + "ms_per_token"), scale * value(*row, at + "ms_per_token_p10"),
          scale * value(*row, at + "ms_per_token_p90"), !whole, row->setting("model.dtype")};
    }
  return std::nullopt;
}

std::string speedup_text(const Record& record, int64_t batch, const RecordPointers& rows) {
  if (!from_codes(record)) return record.setting("method.name") == "none" ? "(baseline)" : kNothing;
  const auto dense = dense_time(record, batch, rows);
  if (!dense) return kNothing;
  const std::string at = prefix(batch);
  const double ratio = dense->median / value(record, at + "ms_per_token");
  std::string text = significant_text(ratio, 3) + "x [" +
                     significant_text(dense->p10 / value(record, at + "ms_per_token_p90"), 3) +
                     ", " +
                     significant_text(dense->p90 / value(record, at + "ms_per_token_p10"), 3) + "]";
  if (ratio < 1) text += ", slower";
  if (dense->dtype == "float32") text += ", dense in float32";
  if (dense->extrapolated) text += ", dense extrapolated";
  return text;
}

std::string marks_text(const Record& record, int64_t batch) {
  std::string marks;
  const auto add = [&](const std::string& mark) { marks += (marks.empty() ? "" : "; ") + mark; };
  const std::string at = prefix(batch);
  if (const auto all = find_metric(record, at + "ms_per_token_extrapolated"))
    add("only " + record.setting("model.synthetic.layers") + " blocks; all of them " +
        significant_text(all->value, 3) + " ms, extrapolated");
  if (const auto checked = find_metric(record, at + "checked_tokens");
      checked && checked->value == 0)
    add("not checked");
  return marks;
}

std::string kernels_text(const Record& record, int64_t batch) {
  constexpr std::string_view kStart = "products: ";
  const auto median = find_metric(record, prefix(batch) + "ms_per_token");
  return median && median->note.starts_with(kStart) ? median->note.substr(kStart.size()) : kNothing;
}

// Settings that tell cells apart, beside those that the columns say.
std::vector<std::string> other_settings(const RecordPointers& rows) {
  std::vector<std::string> keys = varying_beside_label(rows);
  std::erase_if(keys, [](const std::string& key) {
    return key.starts_with("model.synthetic.packed.") || key == "model.backend" ||
           key == "model.dtype" || key == "evaluate.decode_latency.batch";
  });
  return keys;
}

}  // namespace

Section decode_section(const RecordPointers& rows) {
  RecordPointers timed;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(timed),
               [](const Record* row) { return !batches_of(*row).empty(); });
  const std::vector<std::string> settings = other_settings(timed);
  ReportTable table;
  for (const char* title : {"method", "weights"}) table.add_column(title);
  for (const std::string& key : settings) table.add_column(key);
  for (const char* title : {"batch", "ms per token", "p10 – p90", "tokens/s", "first token, ms",
                            "GB", "weights, GB", "cache, GB", "GB read", "% of read", "vs dense"})
    table.add_column(title, true);
  const bool on_gpu = std::any_of(timed.begin(), timed.end(), [](const Record* row) {
    return row->peak_bytes.contains("device_peak");
  });
  if (on_gpu) table.add_column("device peak, GB", true);
  for (const char* title : {"products", "checked tokens", "marks"}) table.add_column(title);
  std::set<int64_t> batches;
  for (const Record* row : timed) batches.merge(batches_of(*row));
  for (const int64_t batch : batches) {
    if (batches.size() > 1) table.add_break();
    for (const Record* row : timed) {
      const std::string at = prefix(batch);
      if (!find_metric(*row, at + "ms_per_token")) continue;
      const auto get = [&](const char* name) { return value(*row, at + name); };
      const double weights = get("bytes_weights"), cache = get("bytes_cache");
      const auto gigabytes = [](double bytes) { return significant_text(bytes / 1e9, 3); };
      std::vector<std::string> cells = {or_nothing(row->setting("method.name")),
                                        weights_text(*row)};
      for (const std::string& key : settings) cells.push_back(or_nothing(row->setting(key)));
      const double share = get("bandwidth_share");
      for (const std::string& text :
           {std::to_string(batch), significant_text(get("ms_per_token"), 3),
            significant_text(get("ms_per_token_p10"), 3) + " – " +
                significant_text(get("ms_per_token_p90"), 3),
            significant_text(get("tokens_per_second"), 3),
            significant_text(get("ms_first_token"), 3),
            gigabytes(weights + cache + get("bytes_activations")), gigabytes(weights),
            gigabytes(cache), gigabytes(get("bytes_per_token")),
            fixed_text(100 * share, share < 0.1 ? 1 : 0), speedup_text(*row, batch, timed),
            gigabytes(value(*row, "bytes.device_peak")), kernels_text(*row, batch),
            fixed_text(get("checked_tokens"), 0), marks_text(*row, batch)})
        cells.push_back(text);
      if (!on_gpu) cells.erase(cells.end() - 4);
      table.add_row(std::move(cells));
    }
  }
  std::string intro;
  if (!timed.empty())
    intro = "A plain read of memory reached " +
            significant_text(value(*timed.front(), "decode.read_gb_per_s"), 4) +
            " GB/s in the first of these cells.";
  if (table.empty()) return {};
  return {"decode", "Tokens written", intro, std::move(table), {}, kLegend};
}

}  // namespace gptqb
