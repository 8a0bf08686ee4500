// Which tensors an architecture has, with their shapes: one table that the loader checks a
// checkpoint against.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/checkpoint.h"

namespace gptqb {

struct TensorSpec {
  std::string name;  // "model.layers.{}.mlp.up_proj.weight"; {} stands for each block's number
  std::vector<int64_t> shape;
  bool optional = false;  // an output head that may be tied to the embedding
};

struct TensorTable {
  std::string prefix;  // what names in `specs` start with, apart from the head's
  std::vector<std::string> other_prefixes;  // what some checkpoints of the family have in its place
  int64_t blocks = 0;
  std::vector<TensorSpec> specs;
};

// `pattern` with its {} replaced by `block`.
std::string tensor_name(const std::string& pattern, int64_t block);

// Finds each tensor of the table in the checkpoint: names of the table -> names in the files.
// Throws Error: tensors that are missing, tensors that the table has no entry for (leftovers that
// are known to be harmless, such as rotary frequencies, are passed over), a wrong shape, a dtype
// other than F16, BF16, F32.
std::map<std::string, std::string> match_tensors(const TensorTable& table,
                                                 const TensorReader& tensors);

}  // namespace gptqb
