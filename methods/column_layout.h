// Columns of weights, codes and H put in sweep order and back, each in one pass over memory.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// H with rows and columns in `order` (i64 [in]), [in, in] contiguous in `dtype`; h f32 [in, in].
at::Tensor permute_both(const at::Tensor& h, const at::Tensor& order, at::ScalarType dtype);

// Columns of `weights` [rows, in] f32 or f64 in `order` (undefined: natural), as the sweep keeps
// them: into `out` [in, rows], contiguous.
void take_columns(const at::Tensor& weights, const at::Tensor& order, at::Tensor out);

// Undoes take_columns() for codes: `codes` u8 [in, rows] contiguous, into `out` u8 [rows, in],
// whose rows are contiguous.
void put_columns(const at::Tensor& codes, const at::Tensor& order, at::Tensor out);

}  // namespace gptqb
