// AWQ (Lin et al. 2023): scales that make the columns with large inputs larger before rounding, and
// clipping of outlying weights. The searches, as functions of weights and moments; impl/awq.cpp
// runs them over a block.
#pragma once

#include <ATen/ATen.h>

#include "methods/grid.h"

namespace gptqb {

// s = mean^alpha, at least 1e-4, divided by sqrt(max s * min s); `mean_abs` [in]: mean |x| of each
// input column. In its dtype, every step rounded. Paper section 3.2; llm-awq's normalization.
at::Tensor awq_scales(const at::Tensor& mean_abs, double alpha);

// Weights rounded on the grid of `rule` after their columns were multiplied by `scales` [in], and
// divided by them again. In the dtype of `weights` [out, in].
at::Tensor round_scaled(const at::Tensor& weights, const at::Tensor& scales, const GridRule& rule);

// `weights` [out, in] with each group clamped to +- the largest value that makes the group's own
// output error least: e^T M_gg e over candidates max|w| (1 - i / steps), i < shrink * steps, the
// first best wins; e = rounded clamped weights - weights, M `moments` f32 [in, in] (any scale).
// Groups are taken by themselves, as llm-awq does.
at::Tensor clip_weights(const at::Tensor& weights, const at::Tensor& moments, const GridRule& rule,
                        int64_t steps, double shrink);

// The same judged as llm-awq does: mean square difference of the group's outputs for `inputs`
// [tokens, in], products, sums and squares rounded in the dtype of `weights`, which `inputs` share.
at::Tensor clip_weights_on(const at::Tensor& weights, const at::Tensor& inputs,
                           const GridRule& rule, int64_t steps, double shrink);

}  // namespace gptqb
