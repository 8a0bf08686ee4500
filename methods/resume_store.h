// What of a run outlives it: finished blocks, and Hessians for work outside this program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "methods/block_model.h"
#include "methods/calibration.h"
#include "methods/kept_linear.h"
#include "methods/quantizer.h"

namespace gptqb {

// A finished block, as kept for resuming: its layers and a hash of the activations it put out. The
// head is kept as one more block behind the last.
struct FinishedBlock {
  std::map<std::string, KeptLinear> linears;  // by name within the block
  // Scales that moved out of norms, linears and activations, by name within the block; CPU, f32.
  std::map<std::string, at::Tensor> divided;
  std::vector<LayerHealth> health;
  uint64_t output_hash = 0;
};

// Where finished blocks are kept. The runner's implementation writes files atomically.
class ResumeStore : public ReplacedShelf {
 public:
  // Empty: it is not there.
  virtual std::optional<FinishedBlock> load(int64_t block) = 0;
  // Called in another thread, one block at a time; load() of another block may run beside it.
  virtual void save(int64_t block, const FinishedBlock& finished) = 0;
  std::map<std::string, KeptLinear> linears(int64_t block) override;
};

// Where the Hessian of each quantized layer goes, for work outside this program.
class HessianSink {
 public:
  virtual ~HessianSink() = default;
  // Whether the layer's Hessian is there already; a kept block is quantized again if one is not.
  virtual bool has(const std::string& layer) const = 0;
  virtual void save(const std::string& layer, const CalibrationStats& stats) = 0;
};

}  // namespace gptqb
