// One cell of an experiment: everything that decides its numbers, resolved, and the identity made
// of it.
//
// A cell is made from its canonical text, a JSON object of dotted keys in alphabetical order with
// every default filled in and every key its method does not use left out. Paths keep `${NAME}`
// unexpanded in it, so that the id is the same on every machine; all other values are stored
// expanded, since they change the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/windows.h"
#include "eval/decode_task.h"
#include "eval/kernel_bench_spec.h"
#include "methods/method_config.h"
#include "methods/quant_config.h"
#include "models/synthetic_model.h"

namespace gptqb {

struct ModelSpec {
  std::string path;  // Hugging Face folder, `${...}` expanded; empty for a synthetic model
  std::string path_unexpanded;  // as the experiment file has it
  SyntheticModel synthetic;     // instead of `path`
  std::string dtype = "auto";   // float16, bfloat16, float32, auto
  std::string checkpoint_format = "auto";
  std::string backend = "auto";
};

// A dataset and its share of the calibration samples, in (0, 1]; shares of a list add up to 1.
struct DatasetShare {
  DatasetSpec dataset;
  double share = 1;
};

struct CalibrationSpec {
  std::vector<DatasetShare> datasets;  // one, unless the experiment mixes
  int64_t samples = 128;
  int64_t seqlen = 2048;
  int64_t seed = 0;
  int64_t heldout = 8;
  Draw draw = Draw::kReference;
};

// One entry of `evaluate`. Options that an evaluator does not take keep their default.
struct EvaluatorSpec {
  std::string name;                   // an entry of evaluators.def
  std::vector<DatasetSpec> datasets;  // labels are distinct: they name the metrics
  int64_t seqlen = 2048;              // tokens a window
  int64_t max_windows = 0;            // of each dataset; 0: all
  int64_t batch = 0;                  // windows run together; 0: chosen by the evaluator
  BosPolicy bos = BosPolicy::kTokenizer;
  // Of decode_latency, whose windows give the ids: seqlen and max_windows are what it needs.
  DecodeTask decode;
};

// What the overrides leave of a cell's settings for one layer (torch-free twin of LayerSettings).
struct LayerChoice {
  bool skip = false;
  std::string method;
  QuantConfig quant;
  std::string
      rule;  // the rule it comes from, as OverrideRule::text; empty: the cell's own settings
};

// One rule of `overrides`: what layers matching `match` get.
struct OverrideRule {
  std::string match;   // glob over full layer names
  LayerChoice choice;  // complete: what the rule does not set is the cell's
  // "*.down_proj: quant.bits 8": what records and tables call it.
  const std::string& text() const { return choice.rule; }
};

// All typed settings of a cell.
struct ResolvedSettings {
  ModelSpec model;
  CalibrationSpec calibration;
  MethodConfig method;
  QuantConfig quant;
  CompatPolicy compat;
  std::optional<int64_t> head_bits;       // of the output head; empty: it stays dense
  std::optional<int64_t> embedding_bits;  // of the word embedding
  std::vector<OverrideRule> overrides;    // the first match wins
  std::vector<EvaluatorSpec> evaluators;
  // `kernels`: without the shapes of the model it is like.
  KernelBenchSpec kernels;
  std::string kernels_like;
};

class Cell {
 public:
  // Reads canonical text (or any JSON object of the same keys: a record's `settings`) back,
  // expanding `${...}`. Throws Error naming the key for an unknown key, a wrong type, a value out
  // of range or an unset variable.
  static Cell from_json(const std::string& canonical);

  // First 16 hex digits of the SHA-256 of canonical().
  const std::string& id() const { return id_; }
  const std::string& canonical() const { return canonical_; }
  // (dotted key, value as text), in the order of the schema: the columns of results.csv. A key that
  // the method does not use is absent.
  const std::vector<std::pair<std::string, std::string>>& settings() const { return settings_; }
  // The text of one setting; "" if the cell has no such key.
  std::string setting(const std::string& key) const;

  const ModelSpec& model() const { return resolved_.model; }
  const CalibrationSpec& calibration() const { return resolved_.calibration; }
  const MethodConfig& method() const { return resolved_.method; }
  const QuantConfig& quant() const { return resolved_.quant; }
  // `quant` with the bits of the head, of the embedding; empty: it stays dense.
  std::optional<QuantConfig> head() const { return with_bits(resolved_.head_bits); }
  std::optional<QuantConfig> embedding() const { return with_bits(resolved_.embedding_bits); }
  const CompatPolicy& compat() const { return resolved_.compat; }
  const std::vector<OverrideRule>& overrides() const { return resolved_.overrides; }
  const std::vector<EvaluatorSpec>& evaluators() const { return resolved_.evaluators; }
  const KernelBenchSpec& kernels() const { return resolved_.kernels; }
  const std::string& kernels_like() const { return resolved_.kernels_like; }

  // A cell of the section `kernels`: there is no model, and nothing is quantized.
  bool measures_kernels() const { return !setting("kernels.m").empty(); }

  // Method `none`: nothing is quantized.
  bool dense() const { return resolved_.method.name == "none"; }
  // Whether the result depends on calibration data: false for `none` and for plain rounding, whose
  // cells have no `calibration.*` settings (so that cells which differ only there are one cell).
  bool needs_calibration() const { return needs_calibration_; }

  // Settings of a layer by its full name; the first matching rule wins. Rules are about the linears
  // of blocks: head and embedding have keys of their own.
  LayerChoice settings_for(const std::string& layer) const;
  // A sentence for each rule that is the first match of none of `layers` (full names), and for a
  // `method.layers` that matches none: an error for the caller to raise before any work.
  std::vector<std::string> unmatched_globs(const std::vector<std::string>& layers) const;

  // "gptq 4 bits g128 act-order": short name for progress lines and the log.
  std::string summary() const;

 private:
  Cell() = default;
  std::optional<QuantConfig> with_bits(std::optional<int64_t> bits) const;

  std::string id_;
  std::string canonical_;
  std::vector<std::pair<std::string, std::string>> settings_;
  ResolvedSettings resolved_;
  bool needs_calibration_ = false;
};

}  // namespace gptqb
