// How one linear of a packed checkpoint is stored: which format, how many bits, which groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gptqb {

enum class PackedFormat {
  kGptq,              // v1 of AutoGPTQ: zero points are stored less 1
  kGptqV2,            // v2 of GPTQModel: as they are
  kCompressedTensors  // pack-quantized of LLM-Compressor
};

// "gptq", "gptq_v2", "compressed-tensors": as `model.checkpoint_format` spells it.
const char* format_name(PackedFormat format);

struct PackedLayer {
  PackedFormat format = PackedFormat::kGptqV2;
  int64_t bits = 4;         // 2, 3, 4, 8
  int64_t group_size = -1;  // input columns that share a grid; -1: the whole row
  bool symmetric = false;   // compressed-tensors: no zero points are stored
  bool act_order = false;   // the file must say which group each input has

  // Groups of a row of `in` columns, the short last one counted.
  int64_t groups(int64_t in) const;
};

// The tensors of a layer of `out` x `in`, by the end of their name ("qweight"), with their shapes.
// Those that may be absent are `optional`.
struct PackedPart {
  std::string name;
  std::vector<int64_t> shape;
  bool optional = false;
};
std::vector<PackedPart> packed_parts(const PackedLayer& layer, int64_t out, int64_t in);

}  // namespace gptqb
