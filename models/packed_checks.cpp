#include "models/packed_checks.h"

#include "common/error.h"
#include "common/text.h"
#include "models/checkpoint.h"
#include "models/message_text.h"
#include "models/safetensors.h"

namespace gptqb {
namespace {

bool is_scale(const std::string& name) { return name == "scales" || name == "weight_scale"; }

bool fits(const std::string& name, at::ScalarType dtype) {
  if (is_scale(name)) return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat;
  if (name == "weight_shape") return dtype == at::kLong || dtype == at::kInt;
  if (name.ends_with("g_idx")) return dtype == at::kInt || dtype == at::kLong;
  return dtype == at::kInt;
}

const char* wanted_dtype(const std::string& name) {
  if (is_scale(name)) return "F16, BF16 or F32";
  return name == "weight_shape" || name.ends_with("g_idx") ? "I32 or I64" : "I32";
}

}  // namespace

void check_part(const PackedPart& part, const std::vector<int64_t>& shape, at::ScalarType dtype,
                const std::string& where) {
  if (shape != part.shape)
    throw Error(where, "expected shape " + shape_text(part.shape) + ", got " + shape_text(shape) +
                           ". Bits or group size of the folder's configuration are not those of "
                           "its tensors");
  if (!fits(part.name, dtype))
    throw Error(where, std::string("expected dtype ") + wanted_dtype(part.name) + ", got " +
                           safetensors_dtype_name(dtype));
}

void check_parts(const PackedLayer& layer, int64_t out, int64_t in,
                 const std::map<std::string, at::Tensor>& tensors, const std::string& where) {
  for (const PackedPart& part : packed_parts(layer, out, in)) {
    const std::string name = where + "." + part.name;
    const auto found = tensors.find(part.name);
    if (found != tensors.end() && found->second.defined())
      check_part(part, found->second.sizes().vec(), found->second.scalar_type(), name);
    else if (!part.optional)
      throw Error(name, "expected a tensor of shape " + shape_text(part.shape) + ", got none");
  }
}

at::Tensor finite_scales(const at::Tensor& scales, const std::string& where) {
  const at::Tensor wide = scales.to(at::kFloat).contiguous();
  const int64_t at = first_non_finite(wide);
  if (at >= 0)
    throw Error(where, "expected finite scales, got NaN or infinity at [output " +
                           std::to_string(at / wide.size(1)) + ", group " +
                           std::to_string(at % wide.size(1)) + "]. The file is damaged");
  return wide;
}

at::Tensor natural_groups(int64_t in, int64_t group_size) {
  const at::Tensor columns = at::arange(in, at::kInt);
  return group_size < 0 ? at::zeros_like(columns) : columns.floor_divide(group_size).to(at::kInt);
}

at::Tensor group_index(const at::Tensor& index, const PackedLayer& layer,
                       const std::string& where) {
  if (!index.defined()) return {};
  const int64_t groups = layer.groups(index.size(0));
  const at::Tensor wrong = at::logical_or(index.lt(0), index.ge(groups));
  if (wrong.any().item<bool>()) {
    const int64_t at = wrong.to(at::kByte).argmax().item<int64_t>();
    throw Error(where, "expected groups in 0 .. " + std::to_string(groups - 1) + ", got " +
                           std::to_string(index[at].item<int64_t>()) + " at [input " +
                           std::to_string(at) + "]");
  }
  const at::Tensor narrow = index.to(at::kInt).contiguous();
  return at::equal(narrow, natural_groups(index.size(0), layer.group_size)) ? at::Tensor() : narrow;
}

}  // namespace gptqb
