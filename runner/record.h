// Everything one cell left behind, and its file. Every table is rebuilt from these and nothing
// else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/windows.h"
#include "eval/kernel_row.h"
#include "eval/metric.h"
#include "methods/quantizer.h"
#include "runner/claim_types.h"
#include "runner/environment.h"
#include "runner/expectation.h"

namespace gptqb {

enum class CellStatus { kOk, kSkipped, kFailed };
const char* status_name(CellStatus status);  // "ok", "skipped", "failed"

// Token windows a cell ran on, without the ids.
struct WindowsRecord {
  std::string role;  // "calibration", "heldout", "evaluation"
  // Of evaluation windows. Records of earlier builds lack it: they knew perplexity only.
  std::string evaluator;
  std::string name;     // the name in metric names: "wikitext2"
  std::string dataset;  // label of the corpus: "wikitext2@test"
  int64_t count = 0;
  int64_t seqlen = 0;
  int64_t documents = 0;
  int64_t stream_tokens = 0;
  int64_t dropped_tokens = 0;
  std::string ids_sha256;
  std::vector<SourceFile> files;
};
WindowsRecord describe_windows(const std::string& role, const std::string& name,
                               const TokenWindows& windows);

// Fingerprints of what went in.
struct InputsRecord {
  std::string model;  // path as in the experiment; empty for synthetic weights
  std::string model_fingerprint;
  std::string architecture;
  std::string tokenizer;  // kind
  std::string tokenizer_fingerprint;
  std::string external_fingerprint;  // of the files of method.command; empty without one
  std::vector<SourceFile> files;     // of the model's folder, with --verify only
  std::vector<WindowsRecord> windows;
};

struct Record {
  static constexpr int64_t kSchemaVersion = 1;

  std::string cell_id;
  std::string experiment;
  int64_t position = 0;  // of the cell in its plan; orders tables
  std::string cell;      // canonical JSON of the resolved settings
  std::vector<std::pair<std::string, std::string>> settings;  // dotted key, text
  CellStatus status = CellStatus::kOk;
  std::string reason;  // why it was skipped or failed
  std::vector<Metric> metrics;
  std::vector<LayerHealth> layers;
  std::vector<KernelRow> kernels;             // of a cell of the section `kernels`
  std::map<std::string, double> seconds;      // by phase, exclusive; also metrics "seconds.<phase>"
  std::map<std::string, int64_t> peak_bytes;  // also metrics "bytes.<name>"
  std::map<std::string, int64_t> seeds;
  std::map<std::string, std::string> policies;  // topic -> the choice in force
  std::vector<std::string> notes;               // what a reader must know beside the numbers
  int64_t resumed_blocks = 0;
  std::vector<Expectation> expectations;  // what the experiment file holds the metrics against
  std::optional<Claim> claim;             // of the experiment file
  InputsRecord inputs;
  Environment environment;

  // Text of a setting, or "" if the cell does not have it.
  std::string setting(const std::string& key) const;
};

// Metrics in the order of the record, then seconds.* and bytes.* of its phases.
std::vector<Metric> all_metrics(const Record& record);
// One of them, or "layer.<full layer name>.<field>" with a number of LayerHealth ("loss",
// "relative_error", ...).
std::optional<Metric> find_metric(const Record& record, const std::string& name);

// The windows of a dataset that `evaluator` saw; null if the record has none by that name.
const WindowsRecord* evaluation_windows_of(const Record& record, const std::string& dataset,
                                           const std::string& evaluator = "perplexity");

// Whether the weights are made up: perplexities then mean nothing.
bool is_synthetic(const Record& record);

// Layers that were solved in another way than asked for, by full name (faults QN-05).
std::vector<std::string> fallback_layers(const Record& record);
// Layers with a larger relative error than RTN gives, by full name (faults QN-19).
std::vector<std::string> layers_worse_than_rtn(const Record& record);

// Strict JSON, indented, the same bytes in every locale. A value that is not finite becomes null
// beside a "reason" and "non_finite": "nan", "inf" or "-inf"; text that is not UTF-8 gets U+FFFD.
std::string to_json(const Record& record);

// Inverse of to_json. `where` names the file in messages. Throws Error: not JSON, another
// schema_version, a key that is missing or of the wrong type.
Record record_from_json(const std::string& text, const std::string& where);

// <output>/records/<cell id>.json
std::filesystem::path record_path(const std::filesystem::path& output, const std::string& cell_id);
void write_record(const std::filesystem::path& output, const Record& record);

struct LoadedRecords {
  std::vector<Record> records;       // by experiment, then position
  std::vector<std::string> damaged;  // one message for each file that could not be read
};
// All of <output>/records. An absent folder has no records.
LoadedRecords load_records(const std::filesystem::path& output);

}  // namespace gptqb
