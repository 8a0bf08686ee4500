#include "methods/linear_replacement.h"

#include "common/error.h"

namespace gptqb {
namespace {

void expect_finite(const std::string& where, const char* name, const at::Tensor& tensor) {
  if (!tensor.isfinite().all().item<bool>())
    throw Error(where, std::string(name) + ": expected finite values, got NaN or infinity");
}

void validate_form(const QuantizedLinear& quantized, const std::string& where) {
  quantized.validate(where);
}

void expect_transform(const at::Tensor& t, const std::string& where, int64_t columns) {
  const bool vector = t.defined() && t.dim() == 1 && t.size(0) == columns;
  const bool matrix = t.defined() && t.dim() == 2 && t.size(0) == columns && t.size(1) == columns;
  if (!(vector || matrix) || t.scalar_type() != at::kFloat)
    throw Error(where, "input_transform: expected f32 [" + std::to_string(columns) + "] or [" +
                           std::to_string(columns) + ", " + std::to_string(columns) + "]");
  expect_finite(where, "input_transform", t);
}

void validate_form(const TransformedLinear& transformed, const std::string& where) {
  transformed.quantized.validate(where);
  expect_transform(transformed.input_transform, where, transformed.quantized.in_features());
}

void validate_form(const DenseWeights& dense, const std::string& where) {
  const at::Tensor& w = dense.weights;
  if (!w.defined() || w.dim() != 2 || !at::isFloatingType(w.scalar_type()))
    throw Error(where, "weights: expected a matrix [out, in] of floats");
  expect_finite(where, "weights", w);
}

void validate_form(const Int8Linear& int8, const std::string& where) {
  const bool shaped = int8.codes.defined() && int8.codes.dim() == 2 && int8.row_scales.defined() &&
                      int8.row_scales.dim() == 1 && int8.row_scales.size(0) == int8.codes.size(0);
  if (!shaped || int8.codes.scalar_type() != at::kChar ||
      int8.row_scales.scalar_type() != at::kFloat)
    throw Error(where, "int8: expected codes i8 [out, in] and row_scales f32 [out]");
  expect_finite(where, "row_scales", int8.row_scales);
}

at::Tensor weights_of(const QuantizedLinear& quantized, at::ScalarType dtype) {
  return quantized.dequantize(dtype);
}

at::Tensor weights_of(const TransformedLinear& transformed, at::ScalarType dtype) {
  const auto codes = transformed.quantized.dequantize(at::kFloat);
  const at::Tensor& t = transformed.input_transform;
  return (t.dim() == 1 ? codes * t : at::mm(codes, t)).to(dtype);
}

at::Tensor weights_of(const DenseWeights& dense, at::ScalarType dtype) {
  return dense.weights.to(dtype);
}

at::Tensor weights_of(const Int8Linear& int8, at::ScalarType dtype) {
  return int8.dequantize(dtype);
}

// The two sizes of whichever form it is.
at::IntArrayRef shape_of(const LinearReplacement& replacement) {
  if (const auto* codes = replacement.codes()) return codes->codes.sizes();
  if (const auto* int8 = std::get_if<Int8Linear>(&replacement.form)) return int8->codes.sizes();
  return std::get<DenseWeights>(replacement.form).weights.sizes();
}

int64_t tensor_bits(const at::Tensor& tensor) { return 8 * static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

const QuantizedLinear* LinearReplacement::codes() const {
  if (const auto* transformed = std::get_if<TransformedLinear>(&form))
    return &transformed->quantized;
  return std::get_if<QuantizedLinear>(&form);
}

int64_t LinearReplacement::out_features() const { return shape_of(*this)[0]; }

int64_t LinearReplacement::in_features() const { return shape_of(*this)[1]; }

at::Tensor LinearReplacement::effective_weights(at::ScalarType dtype) const {
  return std::visit([&](const auto& value) { return weights_of(value, dtype); }, form);
}

int64_t LinearReplacement::stored_bits(int64_t scale_bits) const {
  int64_t bits = codes() ? codes()->stored_bits(scale_bits) : 0;
  if (const auto* transformed = std::get_if<TransformedLinear>(&form))
    bits += tensor_bits(transformed->input_transform);
  if (const auto* dense = std::get_if<DenseWeights>(&form)) bits += tensor_bits(dense->weights);
  if (const auto* int8 = std::get_if<Int8Linear>(&form))
    bits += tensor_bits(int8->codes) + tensor_bits(int8->row_scales);
  return bits;
}

LinearReplacement LinearReplacement::to(at::Device device) const {
  auto moved = tensors();
  for (auto& [name, tensor] : moved) tensor = tensor.to(device);
  return from_tensors(moved, codes() ? codes()->bits : 0, codes() ? codes()->group_size : -1);
}

void LinearReplacement::validate(const std::string& where) const {
  std::visit([&](const auto& value) { validate_form(value, where); }, form);
}

void LinearReplacement::validate_grids(const std::string& where, int64_t rows,
                                       int64_t columns) const {
  const QuantizedLinear* quantized = codes();
  if (quantized == nullptr)
    throw Error(where, "expected scales or levels beside the codes, got a form without codes");
  quantized->validate_grids(where, rows, columns);
  if (const auto* transformed = std::get_if<TransformedLinear>(&form))
    expect_transform(transformed->input_transform, where, columns);
}

std::map<std::string, at::Tensor> LinearReplacement::tensors() const {
  std::map<std::string, at::Tensor> result;
  if (const auto* quantized = codes()) {
    result["codes"] = quantized->codes;
    const auto add = [&](const char* name, const at::Tensor& tensor) {
      if (tensor.defined()) result[name] = tensor;
    };
    add("scales", quantized->scales);
    add("zeros", quantized->zeros);
    add("levels", quantized->levels);
    add("group_of_input", quantized->group_of_input);
  }
  if (const auto* transformed = std::get_if<TransformedLinear>(&form))
    result["input_transform"] = transformed->input_transform;
  if (const auto* dense = std::get_if<DenseWeights>(&form)) result["weights"] = dense->weights;
  if (const auto* int8 = std::get_if<Int8Linear>(&form)) {
    result["int8_codes"] = int8->codes;
    result["row_scales"] = int8->row_scales;
    result["threshold"] = at::scalar_tensor(int8->threshold, at::kDouble);
  }
  return result;
}

LinearReplacement LinearReplacement::from_tensors(const std::map<std::string, at::Tensor>& tensors,
                                                  int64_t bits, int64_t group_size) {
  const auto tensor = [&](const char* name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? at::Tensor() : found->second;
  };
  if (const auto weights = tensor("weights"); weights.defined()) return DenseWeights{weights};
  if (const auto codes = tensor("int8_codes"); codes.defined())
    return Int8Linear{codes, tensor("row_scales"), tensor("threshold").item<double>()};
  QuantizedLinear quantized{.codes = tensor("codes"),
                            .scales = tensor("scales"),
                            .zeros = tensor("zeros"),
                            .levels = tensor("levels"),
                            .group_of_input = tensor("group_of_input"),
                            .bits = bits,
                            .group_size = group_size};
  if (const auto transform = tensor("input_transform"); transform.defined())
    return TransformedLinear{std::move(quantized), transform};
  return quantized;
}

}  // namespace gptqb
