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
  // Ids as the tokenizer's published default encodes a string: encode() with the special tokens it
  // adds itself (LLaMA and OPT put one BOS at the start; SmolLM2 and GPT-2 add none).
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

// The tokenizer of a model folder, by the first of these that applies:
// - tokenizer.json, if it is byte-level BPE or has no tokenizer.model beside it;
// - tokenizer.model: sentencepiece (LLaMA's own tokenizer.json is a conversion of it);
// - vocab.json and merges.txt: byte-level BPE by the rules of GPT-2's slow tokenizer.
//
// tokenizer_config.json, special_tokens_map.json and added_tokens.json decide about special and
// added tokens: text that spells one becomes its id, wherever it stands, as in the published
// tokenizers. Text that is not UTF-8 is encoded with U+FFFD for each ill-formed stretch. Throws
// Error naming the folder and what was looked for, or what in a file is not supported.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder);

// Whether `folder` has the files of one, of whatever kind; reads none of them.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace gptqb
