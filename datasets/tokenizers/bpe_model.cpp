#include "datasets/tokenizers/bpe_model.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "common/error.h"
#include "datasets/utf8.h"

namespace gptqb {

namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Printable Latin-1 characters stand for their own byte, the other bytes for U+0100 onward in
// order.
std::array<uint32_t, 256> byte_characters() {
  std::array<uint32_t, 256> codes{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    codes[byte] = printable ? byte : next++;
  }
  return codes;
}

// Codes below 0x800 only.
std::string encode_utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, const Merges& merges, bool whole_words,
                   const std::string& where)
    : vocabulary_(std::move(vocabulary)), whole_words_(whole_words) {
  const std::array<uint32_t, 256> codes = byte_characters();
  std::unordered_map<uint32_t, char> byte_of;
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_symbols_[byte] = encode_utf8(codes[byte]);
    byte_of[codes[byte]] = static_cast<char>(byte);
    byte_ids_[byte] = find(byte_symbols_[byte]).value_or(-1);
  }

  int32_t largest = -1;
  for (const auto& [token, id] : vocabulary_) {
    if (id < 0)
      throw Error(where,
                  "expected ids from 0, got " + std::to_string(id) + " for token '" + token + "'");
    largest = std::max(largest, id);
  }
  bytes_.resize(static_cast<size_t>(largest) + 1);
  for (const auto& [token, id] : vocabulary_) {
    // A token with characters that stand for no byte (a special one) is spelled as it is.
    std::string bytes;
    bool all_bytes = true;
    for (size_t i = 0; all_bytes && i < token.size();) {
      const Utf8Char next = decode_utf8(token, i);
      const auto found = byte_of.find(next.code);
      all_bytes = found != byte_of.end();
      if (all_bytes) bytes += found->second;
      i += next.bytes;
    }
    bytes_[static_cast<size_t>(id)] = all_bytes ? bytes : token;
  }

  merges_.reserve(merges.size() * 2);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto a = find(left);
    const auto b = find(right);
    const auto whole = find(left + right);
    if (!a || !b || !whole)
      throw Error(where, "merge " + std::to_string(rank) + " ('" + left + "' + '" + right +
                             "'): expected tokens, got '" +
                             (!a   ? left
                              : !b ? right
                                   : left + right) +
                             "', which is not in the vocabulary");
    merges_.emplace(pair_key(*a, *b), Merge{static_cast<int32_t>(rank), *whole});
  }
}

std::optional<int32_t> BpeModel::find(const std::string& token) const {
  const auto found = vocabulary_.find(token);
  return found == vocabulary_.end() ? std::nullopt : std::optional(found->second);
}

const std::string& BpeModel::bytes(int32_t id) const {
  static const std::string kNone;
  return id >= 0 && id < size() ? bytes_[static_cast<size_t>(id)] : kNone;
}

const BpeModel::Merge* BpeModel::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeModel::encode(std::string_view word, std::optional<int32_t> unknown,
                      std::vector<int32_t>& ids) const {
  if (whole_words_) {
    std::string spelled;
    for (const char c : word) spelled += byte_symbols_[static_cast<unsigned char>(c)];
    if (const auto id = find(spelled)) {
      ids.push_back(*id);
      return;
    }
  }

  // Symbols form a linked list; candidates wait in a queue by rank, then from left to right, and
  // are dropped when one of their symbols has changed since.
  struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
  };
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) {
      if (!unknown) continue;
      id = *unknown;
    }
    const auto place = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, place - 1, place + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  struct Candidate {
    int32_t rank, place, left, right, id;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, place) > std::tie(other.rank, other.place);
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto offer = [&](int32_t place) {
    const int32_t next = place < 0 ? -1 : symbols[static_cast<size_t>(place)].next;
    if (next < 0) return;
    const int32_t left = symbols[static_cast<size_t>(place)].id;
    const int32_t right = symbols[static_cast<size_t>(next)].id;
    if (const Merge* merge = find_merge(left, right))
      candidates.push({merge->rank, place, left, right, merge->id});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i));
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& symbol = symbols[static_cast<size_t>(best.place)];
    if (symbol.id != best.left || symbol.next < 0) continue;
    Symbol& taken = symbols[static_cast<size_t>(symbol.next)];
    if (taken.id != best.right) continue;
    symbol.id = best.id;
    taken.id = -1;
    symbol.next = taken.next;
    if (symbol.next >= 0) symbols[static_cast<size_t>(symbol.next)].previous = best.place;
    offer(symbol.previous);
    offer(best.place);
  }
  for (int32_t place = 0; place >= 0; place = symbols[static_cast<size_t>(place)].next)
    ids.push_back(symbols[static_cast<size_t>(place)].id);
}

}  // namespace gptqb
