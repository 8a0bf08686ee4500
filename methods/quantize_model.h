// The block driver of the paper (section 4, Setup): blocks in order, each quantized on the outputs
// of the quantized blocks before it, stage by stage on kept intermediates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/progress.h"
#include "methods/block_model.h"
#include "methods/clock.h"
#include "methods/quantize_report.h"
#include "methods/quantizer.h"
#include "methods/resume_store.h"

namespace gptqb {

// Settings of one layer after overrides.
struct LayerSettings {
  bool skip = false;
  std::string method;
  QuantConfig quant;
  std::string rule = "";  // text of the override they come from; empty: none
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
