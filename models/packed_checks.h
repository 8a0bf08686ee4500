// What tensors of packed checkpoints are held against, whatever their format.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "models/packed_layer.h"

namespace gptqb {

// `tensors` by the end of their name, undefined or absent ones left out, against packed_parts().
// Throws Error(where.name): one that is missing, a wrong shape, a wrong dtype.
void check_parts(const PackedLayer& layer, int64_t out, int64_t in,
                 const std::map<std::string, at::Tensor>& tensors, const std::string& where);
// The same of one part, by what a header says.
void check_part(const PackedPart& part, const std::vector<int64_t>& shape, at::ScalarType dtype,
                const std::string& where);

// Scales [out, groups] as contiguous f32. Throws Error(where) with the place of one that is NaN or
// infinite.
at::Tensor finite_scales(const at::Tensor& scales, const std::string& where);

// i / group_size of each of `in` columns, i32; 0 for a group size of -1.
at::Tensor natural_groups(int64_t in, int64_t group_size);

// `index` as contiguous i32, or undefined where it is absent or says what natural_groups() says.
// Throws Error(where) with the place of a group that the layer does not have.
at::Tensor group_index(const at::Tensor& index, const PackedLayer& layer, const std::string& where);

}  // namespace gptqb
