// What stands in for the weights of a linear: the form a method's answer takes.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <variant>

#include "methods/int8_linear.h"
#include "methods/quantized_linear.h"

namespace gptqb {

// Codes that multiply a transformed input: y = dequantize(quantized) T x.
struct TransformedLinear {
  QuantizedLinear quantized;
  at::Tensor input_transform;  // f32: [in], the diagonal of T, or [in, in], T itself
};

// Weights without a grid, as an external method may return: [out, in], any floating dtype.
struct DenseWeights {
  at::Tensor weights;
};

// One of these. Tensors of one replacement live on one device.
struct LinearReplacement {
  std::variant<QuantizedLinear, TransformedLinear, DenseWeights, Int8Linear> form;

  LinearReplacement() = default;
  // A method's answer is almost always plain codes; those convert by themselves.
  LinearReplacement(QuantizedLinear quantized) : form(std::move(quantized)) {}
  LinearReplacement(TransformedLinear transformed) : form(std::move(transformed)) {}
  LinearReplacement(DenseWeights dense) : form(std::move(dense)) {}
  LinearReplacement(Int8Linear int8) : form(std::move(int8)) {}

  // The codes, with or without a transform of their input; null for dense weights and int8.
  const QuantizedLinear* codes() const;

  int64_t out_features() const;
  int64_t in_features() const;

  // The weights [out, in] that multiply the layer's own input, in `dtype`: computed in f32, rounded
  // once. All of the layer but for int8, which rounds its input too (int8_product).
  at::Tensor effective_weights(at::ScalarType dtype) const;

  // Bits that storing this takes; scales of `scale_bits`, transforms and dense weights as their
  // tensors are.
  int64_t stored_bits(int64_t scale_bits) const;

  LinearReplacement to(at::Device device) const;

  // Throws Error naming `where` and the tensor: what QuantizedLinear::validate refuses, a transform
  // of another shape or dtype, values that are not finite.
  void validate(const std::string& where) const;
  // The same of a form with codes [rows, columns] that are elsewhere, and of all but them.
  void validate_grids(const std::string& where, int64_t rows, int64_t columns) const;

  // All tensors by name ("codes", "scales", "zeros", "levels", "group_of_input",
  // "input_transform", "weights", "int8_codes", "row_scales", "threshold"), and the inverse.
  // `from_tensors` does not validate.
  std::map<std::string, at::Tensor> tensors() const;
  static LinearReplacement from_tensors(const std::map<std::string, at::Tensor>& tensors,
                                        int64_t bits, int64_t group_size);
};

}  // namespace gptqb
