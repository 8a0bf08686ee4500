// What a folder says of its own quantization: `quantization_config` in config.json, or
// quantize_config.json beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/name_pattern.h"
#include "models/packed_layer.h"

namespace gptqb {

// One rule: which layers it is about, and how they are stored.
struct PackedRule {
  enum class Match { kName, kPattern, kAll };
  Match match = Match::kAll;
  std::string text;  // a full name, or a regular expression that fits from the name's start on
  std::shared_ptr<const NamePattern> pattern;  // of kPattern: `text`, ready for use
  std::optional<PackedLayer> layer;            // empty: they are dense
};

struct PackedConfig {
  std::string where;  // file and key, for messages
  PackedFormat format = PackedFormat::kGptq;
  bool labelled = false;            // the folder names its format; else `format` is what that means
  std::vector<PackedRule> rules;    // the first match wins
  std::optional<bool> packed_head;  // `lm_head` of gptq: whether the head is packed too
  std::vector<std::string> file_names;  // base names of weight files that older writers chose
  // Names within a block of the linears that are packed at all (`modules_in_block_to_quantize`);
  // empty: all of them.
  std::vector<std::string> modules;

  // How `layer` (full name) is stored; empty: dense, by a rule or because none is about it. Throws
  // Error as NamePattern::fits_start_of().
  std::optional<PackedLayer> layer(const std::string& layer) const;
};

// Reads AutoGPTQ's, GPTQModel's, transformers' and LLM-Compressor's. Empty if the folder says
// nothing of quantization. Throws Error naming file and key: another quantization method or format,
// settings that this program does not compute (quantized activations, rotations, planes), a value
// out of range, two files that contradict each other.
std::optional<PackedConfig> read_packed_config(const std::filesystem::path& folder,
                                               const ConfigReader& config);

}  // namespace gptqb
