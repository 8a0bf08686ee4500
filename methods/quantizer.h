// The interface of a method: one linear in, one quantized linear and its health out. Stateless.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/registry.h"
#include "methods/block_model.h"
#include "methods/calibration.h"
#include "methods/linear_replacement.h"
#include "methods/method_config.h"
#include "methods/quant_config.h"

namespace gptqb {

class ExternalSolver;
class FactorCache;

// How scales were moved around a linear before it is quantized: its weights become w[o, i] *
// columns[i] / rows[o]. Undefined: 1.
struct MovedScales {
  at::Tensor columns;  // f32 [in]
  at::Tensor rows;     // f32 [out]
  std::string kept;  // why columns stay although this linear could take scales; empty: they moved,
                     // or the architecture has no place for them
};

// One linear to quantize. References stay owned by the caller.
struct LinearProblem {
  std::string layer;  // full name, for messages: "model.layers.3.mlp.down_proj"
  at::Tensor weight;  // [out, in], the model's dtype, on the solving device
  // Inputs of this linear (null only for methods that need none), and the same on windows that are
  // not in `stats` (may be null).
  const CalibrationStats* stats = nullptr;
  const CalibrationStats* heldout = nullptr;
  QuantConfig quant;
  MethodConfig method;
  CompatPolicy compat;
  FactorCache* factors = nullptr;      // shared by all linears with these `stats`; may be null
  ExternalSolver* external = nullptr;  // the program of method `external`; null for all others
  // Set by a method that prepares blocks. `weight` and `stats` are as before the move; the codes of
  // the answer stand for the moved weights.
  MovedScales moved;
  // What clipping is searched on, if it is: moments f32 [in, in] of the moved inputs, or some of
  // them [tokens, in] in the model's dtype.
  at::Tensor clip_moments;
  at::Tensor clip_inputs;
};

// A linear of a block and the settings it is to be quantized with.
struct BlockLinear {
  std::string name;   // within the block
  std::string layer;  // full name
  QuantConfig quant;
  bool ours = false;  // quantized by the method that is asked to prepare the block
};

// A whole block before its linears are quantized.
struct BlockProblem {
  BlockModel* model = nullptr;  // the block is loaded and dense
  // Hidden states in chunks, as they enter it; on the model's device or the host.
  const std::vector<at::Tensor>* inputs = nullptr;
  std::vector<std::vector<BlockLinear>> stages;
  std::vector<const CalibrationStats*> stats;  // by stage; null where no layer is quantized
  MethodConfig method;
  CompatPolicy compat;
};

// What a method did to a block: scales by producer, and what that means for each linear.
struct BlockPreparation {
  std::map<std::string, at::Tensor> divided;       // producer -> f32 scale; see divide_output()
  std::map<std::string, MovedScales> moved;        // by linear
  std::map<std::string, at::Tensor> clip_moments;  // by linear; see LinearProblem
  std::map<std::string, at::Tensor> clip_inputs;
};

// How a layer fared: the columns of layers.csv (definitions: docs/architecture.md, layer errors).
// Numbers that do not apply to a method, or that need data which is absent, are empty.
struct LayerHealth {
  std::string layer;
  std::string method;
  int64_t bits = 0;
  int64_t group_size = 0;
  std::optional<double> loss;  // 1/2 tr(E H E^T) with the damped H, as published logs print
  std::optional<double> relative_error;          // tr(E H E^T) / tr(W H W^T), undamped H
  std::optional<double> relative_error_heldout;  // the same on held-out windows
  std::optional<double> relative_error_rtn;      // RTN, same QuantConfig, original weights
  std::optional<double> drift;                   // of the block's output; set by the driver
  std::optional<double> damping;                 // the share that was used
  int64_t damping_tries = 0;
  std::optional<double> condition;  // estimate of the damped H's condition number
  int64_t dead_columns = 0;
  int64_t non_finite_inputs = 0;
  std::optional<double> outlier_share;
  int64_t clipped = 0;  // weights outside the range their grid covers
  int64_t tokens = 0;
  int64_t sequences = 0;
  // "ok", or what was done instead: "rtn: <reason>", "skipped: <reason>".
  std::string status = "ok";
  std::string rule;  // the override that chose its settings; empty: none did. Set by the driver
  // What a reader must know of this layer that is no fault; empty: nothing.
  std::string note = "";
  std::string codes = "";  // QuantizedLinear::codes_hash(); empty: no codes. Set by the driver
  // Of a sample, the number of rows that were solved, which the numbers above then count; empty:
  // all.
  std::optional<int64_t> rows_solved;
  // Each measured from an idle device to an idle device. H: this linear's share of what it took for
  // all that read the same input. A factor that another of them made takes none.
  double seconds_hessian = 0;
  double seconds_factor = 0;
  double seconds_solve = 0;   // from weights to codes
  double seconds_errors = 0;  // the error columns above
  // Set by the driver: the weight's shape, and how many linears share H. 0: not quantized.
  int64_t out_features = 0;
  int64_t in_features = 0;
  int64_t hessian_shared_by = 0;
};

struct LayerResult {
  LinearReplacement replacement;
  LayerHealth health;

  // The codes of a method that gives codes.
  const QuantizedLinear& quantized() const { return *replacement.codes(); }
};

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  // Whether the method cannot do without calibration statistics. Where there are calibration
  // windows the driver collects them for every method, because the error columns of LayerHealth
  // need them.
  virtual bool needs_stats() const = 0;
  // Inputs of at least this size are to be counted by the statistics (outlier_share).
  virtual std::optional<double> outlier_threshold(const MethodConfig&) const { return {}; }
  // Whether prepare_block() must be called before the linears of a block: they then are quantized
  // together, on statistics of the dense block.
  virtual bool prepares_blocks() const { return false; }
  // Looks at the whole block and decides which scales move. Changes nothing in the model.
  virtual BlockPreparation prepare_block(const BlockProblem&) const { return {}; }
  // Throws Error naming the layer: non-finite weights or inputs, a factorization that fails at
  // every damping tried.
  virtual LayerResult quantize(const LinearProblem& problem) const = 0;
};

// Methods that quantize, by name (methods.def). `none`, the dense model, is registered with a null
// quantizer.
using QuantizerFactory = std::unique_ptr<Quantizer> (*)();
const Registry<QuantizerFactory>& quantizers();

// Relative error of `replacement` for `problem`'s weights under `stats`: tr(E H E^T) / tr(W H W^T),
// undamped, accumulated in f64. Empty if the denominator is 0.
std::optional<double> relative_error(const at::Tensor& weight, const LinearReplacement& replacement,
                                     const CalibrationStats& stats);

}  // namespace gptqb
