// The section `save` of an experiment file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/packed_layer.h"
#include "runner/cell.h"

namespace gptqb {

struct SaveSettings {
  std::string path;                    // `${...}` expanded
  std::optional<PackedFormat> format;  // empty: gptq if symmetric, else gptq_v2
  int64_t shard_bytes = 5'000'000'000;
  // Several cells are saved: each in a folder of `path` named by its id.
  bool folder_per_cell = false;

  PackedFormat format_of(const Cell& cell) const {
    return format.value_or(cell.quant().symmetric ? PackedFormat::kGptq : PackedFormat::kGptqV2);
  }
};

// Why scales that moved into an activation cannot be written; what a norm or bias took is in it.
constexpr const char* kMovedScales =
    "expected scales that awq moves into norms and linears beside `save`, got some that move into "
    "an "
    "activation, for which packed checkpoints have no tensor. Use gptq or rtn, or leave `save` out";

// Why the model of `cell` cannot be written as a packed checkpoint, whatever comes out; "" if it
// can, or if it is dense and there is nothing to write.
std::string save_refusal(const SaveSettings& save, const Cell& cell);

}  // namespace gptqb
