// Text to ids, by the tokenizer's own rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gptqb {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of `text` (UTF-8) without any special token added at its ends.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Ids as the tokenizer's published default encodes a string: encode() with the special tokens it adds itself
  // (LLaMA and OPT put one BOS at the start; SmolLM2 and GPT-2 add none).
  virtual std::vector<int32_t> encode_with_special(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  // Number of ids, added tokens included: the largest id is vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual std::optional<int32_t> eos_id() const = 0;
  // "sentencepiece" or "byte-level bpe".
  virtual std::string kind() const = 0;
  // SHA-256 over the files it was read from.
  virtual std::string fingerprint() const = 0;
};

// The tokenizer of a model folder: tokenizer.json (byte-level BPE), else tokenizer.model (sentencepiece), else
// vocab.json + merges.txt; tokenizer_config.json and special_tokens_map.json decide added tokens. Throws Error naming
// the folder and what was looked for, or what in a file is not supported.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder);

}  // namespace gptqb
