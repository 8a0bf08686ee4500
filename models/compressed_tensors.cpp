#include "models/compressed_tensors.h"

#include "common/error.h"
#include "models/bit_fields.h"
#include "models/message_text.h"
#include "models/packed_checks.h"

namespace gptqb {

QuantizedLinear unpack_compressed(const CompressedTensors& tensors, const PackedLayer& layer,
                                  int64_t out, int64_t in, const std::string& where) {
  check_parts(layer, out, in,
              {{"weight_packed", tensors.weight_packed},
               {"weight_scale", tensors.weight_scale},
               {"weight_zero_point", tensors.weight_zero_point},
               {"weight_shape", tensors.weight_shape},
               {"weight_g_idx", tensors.weight_g_idx}},
              where);
  const std::vector<int64_t> said = {tensors.weight_shape[0].item<int64_t>(),
                                     tensors.weight_shape[1].item<int64_t>()};
  if (said != std::vector<int64_t>{out, in})
    throw Error(where + ".weight_shape", "expected " + shape_text({out, in}) +
                                             " (from config.json), got " + shape_text(said));
  QuantizedLinear linear;
  linear.bits = layer.bits;
  linear.group_size = layer.group_size;
  linear.codes = unpack_fields(tensors.weight_packed.contiguous(), layer.bits, in);
  linear.zeros = layer.symmetric
                     ? at::full({out, layer.groups(in)}, int64_t{1} << (layer.bits - 1), at::kByte)
                     : unpack_fields(tensors.weight_zero_point.t().contiguous(), layer.bits, out)
                           .t()
                           .contiguous();
  linear.scales = finite_scales(tensors.weight_scale, where + ".weight_scale");
  // Some versions fill an index that they do not use with -1.
  const bool unused = tensors.weight_g_idx.defined() && !layer.act_order &&
                      tensors.weight_g_idx.eq(-1).all().item<bool>();
  if (!unused)
    linear.group_of_input = group_index(tensors.weight_g_idx, layer, where + ".weight_g_idx");
  return linear;
}

}  // namespace gptqb
