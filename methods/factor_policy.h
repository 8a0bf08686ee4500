// From statistics to a factor of H: what is tried, what is shared between linears, and what happens
// when nothing works. The same for every method that solves with H.
#pragma once

#include <functional>
#include <optional>

#include "methods/hessian.h"
#include "methods/quantizer.h"

namespace gptqb {

// A factor of `prepared`, or nothing and the failing column.
using Factorize =
    std::function<std::optional<Factor>(PreparedHessian prepared, FactorFailure& failure)>;

// Damping to try after `used` failed: max(10 x used, 0.01), at most 1; nothing if method.on_failure
// is not raise_damping or 1 has been tried (shared/design/architecture.md, Numerical policies).
std::optional<double> next_damping(const MethodConfig& method, double used);

// Factors H of problem.stats with method.damping, and with more of it as long as next_damping()
// gives any; H is prepared for each try. Taken from problem.factors if a linear of the same stage
// has done it (`kind` says what `factorize` makes). Throws Error naming the layer if calibration
// saw values that are not finite.
FactorOutcome factor_hessian(const LinearProblem& problem, FactorKind kind,
                             const Factorize& factorize);

// The result of a layer whose `outcome` has no factor: RTN, marked, with on_failure: rtn. Else
// throws Error naming the layer and what was tried.
LayerResult give_up(const LinearProblem& problem, LayerHealth health, const FactorOutcome& outcome);

// One try at a layer: `outcome` becomes what `factor` gives for the damping in force, and `health`
// tells of it. Holds the layer's result where it ends here: no factor (give_up), or no live input.
std::optional<LayerResult> try_factor(const LinearProblem& problem,
                                      const std::function<FactorOutcome()>& factor,
                                      FactorOutcome& outcome, LayerHealth& health);

// A solver that changes an inverse as it goes can lose a pivot to rounding where H itself was
// factored: at `position` of the sweep; `what` names the inverse. Answered as a factorization that
// fails: true with more damping in `problem`, or false, `outcome` telling why, where the policy
// ends.
bool try_more_damping(LinearProblem& problem, FactorOutcome& outcome, const std::string& what,
                      int64_t position);

// Input column at `position` of the sweep.
int64_t input_column(const at::Tensor& order, int64_t position);

}  // namespace gptqb
