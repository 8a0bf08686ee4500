#include "models/packed_layer.h"

#include "common/round_up.h"
#include "models/bit_fields.h"

namespace gptqb {

const char* format_name(PackedFormat format) {
  switch (format) {
    case PackedFormat::kGptq:
      return "gptq";
    case PackedFormat::kGptqV2:
      return "gptq_v2";
    case PackedFormat::kCompressedTensors:
      return "compressed-tensors";
  }
  return "";
}

int64_t PackedLayer::groups(int64_t in) const {
  return group_size < 0 ? 1 : divide_up(in, group_size);
}

std::vector<PackedPart> packed_parts(const PackedLayer& layer, int64_t out, int64_t in) {
  const int64_t groups = layer.groups(in);
  const int64_t of_row = words_of(in, layer.bits);
  const int64_t of_column = words_of(out, layer.bits);
  if (layer.format != PackedFormat::kCompressedTensors)
    return {{"qweight", {of_row, out}},
            {"qzeros", {groups, of_column}},
            {"scales", {groups, out}},
            {"g_idx", {in}, !(layer.act_order && groups > 1)}};
  std::vector<PackedPart> parts = {
      {"weight_packed", {out, of_row}}, {"weight_scale", {out, groups}}, {"weight_shape", {2}}};
  if (!layer.symmetric) parts.push_back({"weight_zero_point", {of_column, groups}});
  parts.push_back({"weight_g_idx", {in}, !(layer.act_order && groups > 1)});
  return parts;
}

}  // namespace gptqb
