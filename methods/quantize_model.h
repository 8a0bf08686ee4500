// The block driver of the paper (section 4, Setup): blocks in order, each quantized on the outputs
// of the quantized blocks before it, stage by stage on kept intermediates.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/progress.h"
#include "methods/block_model.h"
#include "methods/clock.h"
#include "methods/quantize_report.h"
#include "methods/quantizer.h"

namespace gptqb {

// Settings of one layer after overrides.
struct LayerSettings {
  bool skip = false;
  std::string method;
  QuantConfig quant;
  std::string rule = "";  // text of the override they come from; empty: none
};

// A finished block, as kept for resuming: its layers and a hash of the activations it put out. The
// head is kept as one more block behind the last.
struct FinishedBlock {
  std::map<std::string, LinearReplacement> linears;  // by name within the block; CPU tensors
  // Scales that moved out of norms, linears and activations, by name within the block; CPU, f32.
  std::map<std::string, at::Tensor> divided;
  std::vector<LayerHealth> health;
  uint64_t output_hash = 0;
};

// Where finished blocks are kept. The runner's implementation writes files atomically.
class ResumeStore : public ReplacedShelf {
 public:
  virtual std::optional<FinishedBlock> load(int64_t block) = 0;
  virtual void save(int64_t block, const FinishedBlock& finished) = 0;
  std::map<std::string, LinearReplacement> linears(int64_t block) override;
};

// Where the Hessian of each quantized layer goes, for work outside this program.
class HessianSink {
 public:
  virtual ~HessianSink() = default;
  // Whether the layer's Hessian is there already; a kept block is quantized again if one is not.
  virtual bool has(const std::string& layer) const = 0;
  virtual void save(const std::string& layer, const CalibrationStats& stats) = 0;
};

struct QuantizeOptions {
  MethodConfig method;
  CompatPolicy compat;
  // Settings by full layer name; called once per layer.
  std::function<LayerSettings(const std::string& layer)> settings;
  // The ends of the model; empty: they stay dense. The head is quantized by `method`, on H of its
  // inputs behind the last block; the embedding row by row to the nearest (quantize_embedding.h).
  std::optional<QuantConfig> head;
  std::optional<QuantConfig> embedding;
  int64_t sequences_per_chunk = 1;     // sequences that run through a block together
  bool activations_on_host = false;    // hidden states wait in host memory, not on the device
  ResumeStore* resume = nullptr;       // null: nothing is kept
  HessianSink* hessians = nullptr;     // null: Hessians are not kept
  ExternalSolver* external = nullptr;  // the program of method `external`
  PhaseClock* clock = nullptr;         // what phases are booked on; null: one of its own
  Progress* progress = nullptr;        // null: silent
};

// Quantizes every linear of every block of `model` in place, and its ends where `options` say so.
// `calibration` and `heldout` are i64 [sequences, seqlen] (heldout may be undefined: no held-out
// errors, no drift). Without true_sequential all statistics of a block come from the dense block;
// with it each stage sees the quantized stages before it, in one pass. Throws Error naming the
// layer; Interrupted between units of work, after which the same call with the same resume store
// goes on from the last finished block and checks its output's hash.
QuantizeReport quantize_model(BlockModel& model, const at::Tensor& calibration,
                              const at::Tensor& heldout, const QuantizeOptions& options);

}  // namespace gptqb
