// What happens to H between calibration and the solver: checks, dead columns, column order,
// damping.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "methods/calibration.h"
#include "methods/method_config.h"

namespace gptqb {

// H as a solver takes it. Columns are in sweep order: position p holds input column order[p].
struct PreparedHessian {
  at::Tensor matrix;  // [in, in] compute dtype: repaired, permuted, damped
  at::Tensor order;   // i64 [in]; undefined: natural order
  at::Tensor dead;    // bool [in], natural order: no input of this column was ever different from 0
  int64_t dead_columns = 0;
};

// Throws Error naming `layer` and the column if calibration saw NaN or infinite inputs, or if `h`,
// its Hessian, overflowed f32.
void check_calibration(const CalibrationStats& stats, const at::Tensor& h,
                       const std::string& layer);

// Steps of the published code, in its order: a dead column (H_ii = 0) gets 1 on the diagonal;
// columns are put in the order of `method` (left in natural order for the greedy one, which rows do
// not share); `damping` times the mean of the diagonal is added to the diagonal. `h` f32 [in, in]
// as CalibrationStats::hessian() gives it; the result is in method.compute. `damping` stands beside
// `method` because a factorization that fails raises it.
PreparedHessian prepare_hessian(const at::Tensor& h, double damping, const MethodConfig& method);

at::ScalarType scalar_type(ComputeDtype compute);

// A triangular factor that a solver works with.
struct Factor {
  PreparedHessian prepared;  // without `matrix`, which is no longer needed
  // [in, in]; reference: U, the upper Cholesky factor of H^-1; fast: N (gptq_fast.h); obq: H^-1
  // itself.
  at::Tensor triangle;
  at::Tensor diagonal;  // [in]: R_ii = 1 / U_ii, in sweep order
};

// Why a factorization did not work; `column` is the position in sweep order of the first pivot that
// is not positive.
struct FactorFailure {
  int64_t column = 0;
};

// Cholesky factor L of `matrix` (lower, L L^T), or nothing and the failing column. A pivot that is
// not larger than a rounding error of its diagonal element counts as a failure: it carries no
// information.
std::optional<at::Tensor> cholesky_lower(const at::Tensor& matrix, FactorFailure& failure);
// The same where `matrix` is what is left of a block of a larger matrix, whose diagonal there was
// `diagonal`: pivots are compared with that.
std::optional<at::Tensor> cholesky_lower(const at::Tensor& matrix, const at::Tensor& diagonal,
                                         FactorFailure& failure);
// The same for the upper factor U of U^T U.
std::optional<at::Tensor> cholesky_upper(const at::Tensor& matrix, FactorFailure& failure);

// (max R_ii / min R_ii)^2, a lower bound of the damped H's condition number.
double condition_estimate(const Factor& factor);

// What factoring H under a damping policy came to; shared by all linears of a stage.
struct FactorOutcome {
  std::shared_ptr<const Factor> factor;  // null: every try failed
  double damping = 0;                    // of the last try
  int64_t tries = 0;
  std::string failure;  // of the last try that failed, if none worked
  double condition = 0;
};

// What a factor holds: the triangle that GPTQ sweeps with, or the inverse that OBQ shrinks.
enum class FactorKind { kTriangle, kInverse };

// Linears that read the same input share H and its factor. One object per stage, beside its
// CalibrationStats.
class FactorCache {
 public:
  using Key =
      std::tuple<FactorKind, double, ColumnOrder, int64_t, ComputeDtype, SolverKind, OnFailure>;
  static Key key(const MethodConfig& method, FactorKind kind = FactorKind::kTriangle) {
    return {kind,
            method.damping,
            method.order_or(ColumnOrder::kNatural),
            method.order_seed,
            method.compute,
            method.solver,
            method.on_failure};
  }
  const FactorOutcome* find(const Key& key) const {
    const auto found = outcomes_.find(key);
    return found == outcomes_.end() ? nullptr : &found->second;
  }
  const FactorOutcome& store(const Key& key, FactorOutcome outcome) {
    return outcomes_[key] = std::move(outcome);
  }

 private:
  std::map<Key, FactorOutcome> outcomes_;
};

}  // namespace gptqb
