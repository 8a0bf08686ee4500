// What quantizing a model came to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/progress.h"
#include "methods/block_model.h"
#include "methods/quantizer.h"

namespace gptqb {

struct QuantizeReport {
  std::vector<LayerHealth> layers;  // in model order, ends included where they were quantized
  std::map<std::string, double>
      seconds;               // exclusive wall time by phase: read, forward, hessian, factor, solve
  double seconds_total = 0;  // of the whole call
  // Of writing by whichever thread: more than seconds["write"] where a block was written while the
  // next one was computed.
  double write_busy_seconds = 0;
  int64_t resumed_blocks = 0;  // taken from the resume store
  int64_t linear_weights = 0;  // number of weights in all linears of all blocks, skipped ones too
  int64_t quantized_weights = 0;  // number of weights replaced
  int64_t quantized_bits = 0;     // bits they take, scales, zeros and indices counted
  int64_t end_weights = 0;        // the same two of head and embedding
  int64_t end_bits = 0;
  bool untied_head = false;  // head and embedding were one tensor and are two now

  // All linears of the loaded block, those left dense too.
  void count_linears(const BlockModel& model);
  // A linear, an end that was replaced.
  void count(const QuantConfig& quant, const LinearReplacement& replacement);
  void count_end(const QuantConfig& quant, const LinearReplacement& replacement);

  // Of all phases but reading and writing, as published times are.
  double seconds_published_scope() const;
};

// What a user should see of a layer while it happens; the tables show it again.
void note_layer(const LayerHealth& health, Progress& progress);

}  // namespace gptqb
