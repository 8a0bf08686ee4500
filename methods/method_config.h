// How codes are found: the section `method` of an experiment file, and the policies of `compat`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gptqb {

// kInverseUpdates: gptq before the paper's third step (gptq_inverse_updates.h).
enum class SolverKind { kFast, kReference, kInverseUpdates };
enum class ComputeDtype { kFloat32, kFloat64 };
// Products of float32 matrices on a GPU: IEEE; three TF32 products of split operands, which keep
// float32's accuracy; one TF32 product, which keeps 11 bits of each operand.
enum class ProductPrecision { kFp32, kTf32x3, kTf32 };
enum class OnFailure { kRaiseDamping, kError, kRtn };
enum class StatsInputs { kQuantized, kDense };
// Order in which the columns of a row are quantized (paper section 3.3, step 1: any fixed one
// serves).
enum class ColumnOrder {
  kNatural,  // left to right
  kAct,      // by falling diag(H), ties in natural order: the published act-order
  kReverse,  // right to left
  kRandom,   // a permutation drawn from order_seed, the same for all layers of one width
  kGreedy,   // each row its own, by the smallest rise of the loss: obq only
};

struct MethodConfig {
  std::string name = "gptq";  // an entry of methods.def
  double damping =
      0.01;  // share of the mean of diag(H) added to the diagonal (paper section 3.3, step 3)
  int64_t block_size = 128;  // columns per block of the published sweep (paper step 2)
  bool act_order = false;    // columns by falling diag(H), stable
  // Another order of columns; empty: the method's own, greedy for obq and natural for all others.
  std::optional<ColumnOrder> order = std::nullopt;
  int64_t order_seed = 0;  // of kRandom
  bool static_groups =
      false;  // grids of all groups fitted on the original weights, in natural order
  bool true_sequential = false;  // statistics of a stage see the quantized stages before it
  SolverKind solver = SolverKind::kFast;
  // The reference solver on a GPU: tensor operation after tensor operation, for its time. Else
  // blocks of columns take one kernel each where that gives the same bits.
  bool step_by_step = false;
  ComputeDtype compute = ComputeDtype::kFloat32;
  ProductPrecision precision = ProductPrecision::kTf32x3;  // of the fast solver on a GPU
  OnFailure on_failure = OnFailure::kRaiseDamping;
  StatsInputs inputs = StatsInputs::kQuantized;
  std::string command{};  // of method `external`, `${...}` expanded
  // Sampling: only so many rows of each linear are solved, evenly spaced (0: all), and only layers
  // whose full name matches the glob.
  int64_t rows = 0;
  std::string layers = "*";
  bool outlier_first = false;  // obq: weights that round by more than half a step are taken first

  // awq. Matched: GPTQ's tokens and grid rule, everything in f32. Reference: llm-awq's choices
  // (protocol.md section 10).
  bool awq_reference = false;
  int64_t alpha_grid = 20;   // exponents tried: i / alpha_grid
  bool clip = true;          // search how far to clip weights
  int64_t clip_steps = 20;   // candidates are max |w| (1 - i / clip_steps) ...
  double clip_shrink = 0.5;  // ... for i in [0, clip_shrink * clip_steps)

  double outlier_threshold = 6.0;  // llm_int8: |inputs| of at least this make a column an outlier

  // The order in force for a method whose own order is `own`.
  ColumnOrder order_or(ColumnOrder own) const {
    return act_order ? ColumnOrder::kAct : order.value_or(own);
  }

  bool operator==(const MethodConfig&) const = default;
};

// Where the published code does something a careful reader would not expect, each quirk has a
// switch; true means "as the published code" (shared/design/architecture.md, Numerical policies).
struct CompatPolicy {
  bool reference_group_grid =
      false;  // grid from weights as of the block start instead of current ones
  bool reference_one_sided =
      false;  // symmetric row without negative weights keeps min = 0 and is clipped
  bool reference_rtn_groups = false;    // RTN ignores groups
  bool reference_dead_columns = false;  // whole rows set the grid, then dead columns are cleared
  bool reference_rtn_dtype = false;     // RTN computes grids and codes in the model's dtype
  bool reference_loss_dtype = false;    // cross-entropy in the logits' dtype
  bool reference_forward = false;       // each step of a block rounds as transformers does

  bool operator==(const CompatPolicy&) const = default;
};

}  // namespace gptqb
