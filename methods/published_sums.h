// The published code's steps round each window's product (Frantar et al. 2023, code: gptq.py,
// add_batch): float32, each result rounded where the published tensor operations round it.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// x^T * factor in f32, [features, tokens] with the memory layout of x [tokens, features].
at::Tensor published_inputs(const at::Tensor& x, double factor);

// sum = sum * factor + product, both [features, features] f32, contiguous.
void add_published_product(at::Tensor& sum, double factor, const at::Tensor& product);

}  // namespace gptqb
