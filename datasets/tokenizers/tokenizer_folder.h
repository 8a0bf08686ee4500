// The files beside a tokenizer's vocabulary that decide about special and added tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/hash.h"

namespace gptqb {

// A piece of text that is one id wherever it stands in the text, cut out before the vocabulary's
// own rules apply.
struct AddedToken {
  std::string content;
  std::optional<int32_t> id;  // absent: the vocabulary knows it
  bool lstrip = false;        // takes white space on its left (right) with it
  bool rstrip = false;
  bool normalized = false;  // cut out after all tokens that are not (fast tokenizers; there is no
                            // normalizer here)
};

// Reads files of a folder and remembers what it read.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  std::string where(const std::string& name) const { return (folder_ / name).string(); }
  // The content, which becomes part of the fingerprint.
  std::string read(const std::string& name);
  // A JSON object, empty if there is no such file. Throws Error naming the file if it is damaged.
  nlohmann::json read_json(const std::string& name);
  // SHA-256 over names, sizes and contents of all files read so far.
  std::string fingerprint() const;

 private:
  std::filesystem::path folder_;
  Sha256 hash_;
};

// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say together; the first
// wins.
struct TokenizerConfig {
  std::string tokenizer_class;  // empty if not stated
  std::optional<std::string> bos, eos, unk;
  std::optional<bool> add_bos, add_eos;
  bool add_prefix_space = false;
  std::vector<AddedToken> tokens;  // all special and added tokens, each once

  static TokenizerConfig read(TokenizerFolder& folder);
  // Adds a token unless one with this content is there.
  void add(AddedToken token);
};

// An entry of `added_tokens` (tokenizer.json) or `added_tokens_decoder`. Throws Error if it asks
// for whole words only.
AddedToken parse_added_token(const nlohmann::json& entry, const std::string& where);

}  // namespace gptqb
