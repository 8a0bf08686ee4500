// Which model to make from a seed: a published shape, or an architecture with sizes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "methods/quant_config.h"

namespace gptqb {

struct SyntheticModel {
  std::string like;          // a name of published_shapes(); empty: the sizes below
  std::string architecture;  // "llama", "opt" or "bloom"; with `like`: its own
  // 0: what the family usually has. With `like` only `layers` and `seed` count.
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab_size = 0;
  int64_t layers = 0;  // blocks that are made; 0: all of `like`
  int64_t seed = 0;
  // Linears of blocks are made as codes of so many bits, with one symmetric grid for each group of
  // columns. 0: they are dense.
  int64_t packed_bits = 0;
  int64_t packed_group_size = -1;

  bool asked() const { return !like.empty() || !architecture.empty(); }
  // For messages and records: "llama-7b", "llama 4096 x 32".
  std::string name() const;
  // As a config.json would say it. Throws Error naming the key: a shape that is not known, sizes
  // beside `like`, an architecture without sizes or with impossible ones.
  nlohmann::json config() const;
  // How linears are packed; empty: they are not. Throws Error naming the key.
  std::optional<QuantConfig> packed() const;
};

}  // namespace gptqb
