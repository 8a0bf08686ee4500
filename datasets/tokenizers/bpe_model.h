// Byte pair encoding: the vocabulary and the order of merges (Sennrich et al. 2016; bytes as in the
// GPT-2 release).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gptqb {

class BpeModel {
 public:
  // Tokens and merges spelled with one printable character a byte, as the files have them.
  using Vocabulary = std::unordered_map<std::string, int32_t>;
  using Merges = std::vector<std::pair<std::string, std::string>>;

  // `where` names the file. A merge whose parts or result are no tokens is an Error. With
  // `whole_words`, a word that is a token is taken as it is (`ignore_merges` of tokenizer.json).
  BpeModel(Vocabulary vocabulary, const Merges& merges, bool whole_words, const std::string& where);

  // Appends the ids of one word of bytes. A byte that the vocabulary lacks gets the id `unknown`,
  // or is left out where there is none, as the published tokenizers do.
  void encode(std::string_view word, std::optional<int32_t> unknown,
              std::vector<int32_t>& ids) const;

  std::optional<int32_t> find(const std::string& token) const;
  // Bytes of a token; empty for an id that is none.
  const std::string& bytes(int32_t id) const;
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      return static_cast<size_t>((pair * 0x9E3779B97F4A7C15ull) >> 17);
    }
  };
  const Merge* find_merge(int32_t left, int32_t right) const;

  Vocabulary vocabulary_;
  std::vector<std::string> bytes_;             // by id
  std::array<int32_t, 256> byte_ids_;          // -1: no such token
  std::array<std::string, 256> byte_symbols_;  // the printable character that stands for a byte
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
  bool whole_words_;
};

}  // namespace gptqb
