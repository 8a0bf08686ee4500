// A float64 oracle that is fed what a tested solver decided, as tensor operations, for whole layers
// on any device: all columns at once, since each needs only the errors of the columns before it.
//
// Written from shared/design/solver.md (The published algorithm without any inverse): with H = R
// R^T, R upper triangular, N = R with each column divided by its diagonal and E = W - Q, column i
// is quantized from t_i = W_i + E[:, :i] N[:i, i]. tests/support/oracle.h and published_oracle.h
// come to the same values by two other derivations, column by column and on small layers.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "methods/quant_config.h"
#include "methods/quantized_linear.h"

namespace gptqb::test {

// How a layer's codes compare with exact arithmetic on the same past.
struct Judgement {
  int64_t codes = 0;
  int64_t differ = 0;  // from the oracle's
  // Of them: by how much the oracle's value lies beyond the interval that rounds to the code, in
  // steps of its grid.
  double largest_excess = 0;
  int64_t unexplained = 0;  // beyond what the tested arithmetic's rounding accounts for
  // Grids that were fitted during the sweep, against the oracle's own on its current weights.
  int64_t grids = 0;
  double largest_scale_error = 0;  // relative
  int64_t zeros_differ = 0;
  double loss = 0;  // 1/2 tr(E H E^T) with the damped H
};

class FedOracle {
 public:
  // `h` [in, in] as CalibrationStats::hessian() gives it; columns by falling diagonal or in natural
  // order.
  FedOracle(const at::Tensor& h, double damping, bool act_order) {
    auto damped = h.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    dead_ = damped.diagonal() == 0;
    damped.diagonal().masked_fill_(dead_, 1);
    if (act_order)
      order_ = at::argsort(damped.diagonal(), /*stable=*/true, /*dim=*/0, /*descending=*/true);
    else
      order_ = at::arange(damped.size(0), damped.options().dtype(at::kLong));
    damped = in_order(damped.index_select(0, order_));
    damped.diagonal().add_(damped.diagonal().mean() * damping);
    // The ordinary Cholesky factor of H turned round, turned back.
    R_ = at::linalg_cholesky(damped.flip({0, 1})).flip({0, 1});
  }

  // (max R_ii / min R_ii)^2, a lower bound of the damped H's condition number.
  double condition() const {
    const double ratio = (R_.diagonal().max() / R_.diagonal().min()).item<double>();
    return ratio * ratio;
  }

  // `weights` [rows, in] as loaded, `tested` on their device. `fixed_grids`: grids do not depend on
  // the sweep. `half_unit`: relative rounding error of the arithmetic under test (6e-8 in float32).
  // A column's value is a sum of `in` terms at most, through a factor whose relative error is the
  // root of the condition larger than that.
  Judgement judge(const at::Tensor& weights, const QuantizedLinear& tested,
                  const QuantConfig& quant, bool fixed_grids, double half_unit) const {
    const int64_t columns = weights.size(1);
    const auto max_code = static_cast<double>(quant.max_code());
    const auto W = in_order(weights.to(at::kDouble).masked_fill(dead_.unsqueeze(0), 0));
    const auto group = group_of_input(tested, quant);
    const auto scale = in_order(tested.scales.to(at::kDouble).index_select(1, group));
    const auto zero = in_order(tested.zeros.to(at::kDouble).index_select(1, group));
    const auto code = in_order(tested.codes.to(at::kDouble));
    const auto Q = scale * (code - zero);
    const auto E = W - Q;
    const auto N = (R_ / R_.diagonal().unsqueeze(0)).triu(1);
    const auto T = W + at::mm(E, N);

    Judgement result;
    result.codes = code.numel();
    const auto value = T / scale;
    const auto differ = (at::round(value) + zero).clamp(0, max_code) != code;
    result.differ = differ.sum().item<int64_t>();
    const auto excess = ((value + zero - code).abs() - 0.5).masked_fill(differ.logical_not(), 0);
    result.largest_excess = excess.max().item<double>();
    const auto reach = (W.abs() + at::mm(E.abs(), N.abs())) / scale;
    const double unit = half_unit * static_cast<double>(columns) * std::sqrt(condition());
    result.unexplained = (excess > unit * (1 + reach)).sum().item<int64_t>();
    result.loss = 0.5 * ((T - Q) * R_.diagonal().unsqueeze(0)).square().sum().item<double>();
    if (!fixed_grids) judge_grids(W, E, tested, quant, result);
    return result;
  }

 private:
  at::Tensor in_order(const at::Tensor& matrix) const { return matrix.index_select(1, order_); }

  at::Tensor group_of_input(const QuantizedLinear& tested, const QuantConfig& quant) const {
    if (tested.group_of_input.defined()) return tested.group_of_input.to(at::kLong);
    const int64_t columns = tested.in_features();
    return at::arange(columns, order_.options()).div(quant.columns_per_group(columns), "floor");
  }

  // The weights that the published algorithm holds when a group's first column is reached: what all
  // earlier errors have done to them. A uniform grid over their range, 0 included.
  void judge_grids(const at::Tensor& W, const at::Tensor& E, const QuantizedLinear& tested,
                   const QuantConfig& quant, Judgement& result) const {
    const int64_t columns = W.size(1);
    const int64_t width = quant.columns_per_group(columns);
    for (int64_t begin = 0; begin < columns; begin += width) {
      const int64_t end = std::min(begin + width, columns);
      const auto corner = R_.slice(0, begin, end).slice(1, begin, end);
      const auto carried = at::mm(E.slice(1, 0, begin), R_.slice(0, 0, begin).slice(1, begin, end));
      const auto current =
          W.slice(1, begin, end) + at::linalg_solve_triangular(corner, carried, /*upper=*/true,
                                                               /*left=*/false);
      auto low = current.amin(1).clamp_max(0);
      auto high = current.amax(1).clamp_min(0);
      if (quant.symmetric) {
        high = at::maximum(high, -low);
        low = -high;
      }
      const auto empty = (low == 0).logical_and(high == 0);
      low = low.masked_fill(empty, -1);
      high = high.masked_fill(empty, 1);
      const auto max_code = static_cast<double>(quant.max_code());
      const auto scale = ((high - low) / max_code).to(at::kFloat).to(at::kDouble);
      const auto zero = quant.symmetric ? at::full_like(scale, (max_code + 1) / 2)
                                        : at::round(-low / scale).clamp(0, max_code);
      const auto error = (tested.scales.select(1, begin / width).to(at::kDouble) / scale - 1).abs();
      result.grids += scale.numel();
      result.largest_scale_error = std::max(result.largest_scale_error, error.max().item<double>());
      result.zeros_differ +=
          (tested.zeros.select(1, begin / width).to(at::kDouble) != zero).sum().item<int64_t>();
    }
  }

  at::Tensor dead_;   // bool [in]
  at::Tensor order_;  // i64 [in]: input column of each position
  at::Tensor R_;      // f64 [in, in], in sweep order
};

}  // namespace gptqb::test
