// Which tensors an architecture has, with their shapes: one table that the loader checks a
// checkpoint against.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/checkpoint.h"
#include "models/packed_linears.h"

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

// Where the tensors of a table are.
struct MatchedTensors {
  std::map<std::string, std::string> dense;   // names of the table -> names in the files
  std::map<std::string, std::string> packed;  // weights of packed linears -> layers in the files
  std::map<std::string, std::vector<int64_t>> packed_shapes;  // the table's, [out, in]
  std::vector<std::string> passed_over;  // all-zero biases that the architecture does not have
};

// Finds each tensor of the table in the checkpoint; `packed`: its packed linears, which take the
// place of matrices "<layer>.weight". Throws Error: tensors that are missing, tensors that the
// table has no entry for (leftovers that are known to be harmless are passed over: rotary
// frequencies, and zeros that older packers saved as bias of each packed linear), a wrong shape, a
// dtype other than F16, BF16, F32; of packed tensors what PackedLinears::layout() throws.
MatchedTensors match_tensors(const TensorTable& table, const TensorReader& tensors,
                             const PackedLinears* packed = nullptr);

}  // namespace gptqb
