#include "models/gptq_tensors.h"

#include "common/error.h"
#include "common/text.h"
#include "models/bit_fields.h"
#include "models/column_fields.h"
#include "models/message_text.h"
#include "models/packed_checks.h"

namespace gptqb {
namespace {

// "[output 3, group 1]" of the first place of a mask [out, groups].
std::string first_place(const at::Tensor& mask) {
  const int64_t at = mask.reshape({-1}).to(at::kByte).argmax().item<int64_t>();
  return "[output " + std::to_string(at / mask.size(1)) + ", group " +
         std::to_string(at % mask.size(1)) + "]";
}

at::Tensor float16_scales(const at::Tensor& scales, const std::string& where) {
  const at::Tensor narrow = scales.to(at::kHalf);
  const at::Tensor lost = narrow.to(at::kFloat).ne(scales);
  if (lost.any().item<bool>()) {
    const int64_t at = lost.reshape({-1}).to(at::kByte).argmax().item<int64_t>();
    throw Error(where, "scales: expected numbers that float16 holds, got " +
                           number_text(scales.reshape({-1})[at].item<float>()) + " at " +
                           first_place(lost) +
                           ". Quantize with quant.scale_dtype: float16, which rounds scales before "
                           "codes are chosen");
  }
  return narrow.t().contiguous();
}

at::Tensor stored_zeros(const at::Tensor& zeros, PackedFormat format, const std::string& where) {
  if (format == PackedFormat::kGptqV2) return zeros;
  const at::Tensor none = zeros.eq(0);
  if (none.any().item<bool>())
    throw Error(where,
                "zeros: expected at least 1, since the format gptq stores zero - 1, got 0 at " +
                    first_place(none) + ". Write the format gptq_v2, or use a symmetric grid");
  return zeros - 1;
}

}  // namespace

GptqTensors pack_gptq(const QuantizedLinear& linear, PackedFormat format,
                      const std::string& where) {
  if (linear.ternary())
    throw Error(where,
                "expected codes of 2, 3, 4 or 8 bits, got ternary ones, which no packed "
                "checkpoint holds");
  const at::Tensor codes = linear.codes.to(at::kCPU);
  const at::Tensor zeros = stored_zeros(linear.zeros.to(at::kCPU), format, where);
  GptqTensors packed;
  packed.qweight = pack_columns(codes.contiguous(), linear.bits, where + ".codes");
  packed.qzeros = pack_fields(zeros.t().contiguous(), linear.bits, where + ".zeros");
  packed.scales = float16_scales(linear.scales.to(at::kCPU), where);
  packed.g_idx = linear.group_of_input.defined()
                     ? linear.group_of_input.to(at::kCPU)
                     : natural_groups(linear.in_features(), linear.group_size);
  return packed;
}

QuantizedLinear unpack_gptq(const GptqTensors& tensors, const PackedLayer& layer, int64_t out,
                            int64_t in, const std::string& where) {
  check_parts(layer, out, in,
              {{"qweight", tensors.qweight},
               {"qzeros", tensors.qzeros},
               {"scales", tensors.scales},
               {"g_idx", tensors.g_idx}},
              where);
  QuantizedLinear linear;
  linear.bits = layer.bits;
  linear.group_size = layer.group_size;
  linear.codes = unpack_columns(tensors.qweight.contiguous(), layer.bits, in);
  linear.zeros = unpack_fields(tensors.qzeros.contiguous(), layer.bits, out).t().contiguous();
  if (layer.format == PackedFormat::kGptq) {
    const at::Tensor full = linear.zeros.eq((int64_t{1} << layer.bits) - 1);
    if (full.any().item<bool>())
      throw Error(where + ".qzeros",
                  "expected fields below " + std::to_string((int64_t{1} << layer.bits) - 1) +
                      " under the format gptq, which stores zero - 1, got that at " +
                      first_place(full) +
                      ": some readers take it for a zero point of 0, others for one beyond all "
                      "codes. If the zeros are stored as they are: model.checkpoint_format: "
                      "gptq_v2; else quantize again with that format");
    linear.zeros.add_(1);
  }
  linear.scales = finite_scales(tensors.scales.t(), where + ".scales");
  linear.group_of_input = group_index(tensors.g_idx, layer, where + ".g_idx");
  return linear;
}

}  // namespace gptqb
