// What both OBQ solvers take and give (Frantar and Alistarh, 2022; the GPTQ paper, section 2,
// "Optimal Brain Quantization", equations 2 and 3).
//
// Every row is quantized on its own, one weight at a time. With F the weights that are left and A
// the inverse of their Hessian, the next weight is the one whose rounding raises the loss least,
//   p = argmin over F of (w_p - q_p)^2 / A_pp,
// all others make up for it, w <- w - (w_p - q_p) / A_pp A[p, :], and p leaves the inverse by one
// step of Gaussian elimination, A <- A - A[:, p] A[p, :] / A_pp. Grids are fixed before: rows, or
// all groups fitted on the original weights.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>

#include "methods/grid.h"
#include "methods/hessian.h"

namespace gptqb {

// One layer in sweep order, dead columns cleared. T = f32 or f64, all on one device.
struct ObqProblem {
  std::string layer;
  at::Tensor weights;            // T [rows, in]
  at::Tensor inverse;            // T [in, in]: H^-1, from factorize_inverse()
  Grid grids;                    // T [rows, groups]
  at::Tensor group_of_position;  // i32 [in]
  QuantConfig quant;             // how a weight takes a code on its grid
  bool greedy = true;            // false: columns from first to last
  bool outlier_first = false;    // weights that round by more than half a step first, the largest
                                 // error of them (protocol.md sections 6 and 10)
  int64_t budget = 0;            // bytes for the inverses of rows in flight (obq_fast.h)
};

struct ObqResult {
  at::Tensor codes;  // u8 [rows, in], sweep order
  at::Tensor steps;  // i32 [rows, in]: the column (position in sweep order) taken at each step
  double loss = 0;   // 1/2 sum of (w - q)^2 / A_pp = 1/2 tr(E H E^T)
  // A pivot A_pp that rounding has left without information: the row and column where it happened.
  // Codes and loss then mean nothing.
  struct Breakdown {
    int64_t row = 0;
    int64_t column = 0;
  };
  std::optional<Breakdown> breakdown;
};

// H^-1 in `triangle`, from the Cholesky factor that GPTQ uses (so that condition estimates agree).
// Nothing, and the failing column, if H is not positive definite.
std::optional<Factor> factorize_inverse(PreparedHessian prepared, FactorFailure& failure);

// A pivot counts as lost if it is not above this share of the column's first one: two rounding
// errors, as for the pivots of a Cholesky factorization.
double smallest_obq_pivot(at::ScalarType dtype);

}  // namespace gptqb
