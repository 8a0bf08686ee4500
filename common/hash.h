// Fingerprints by SHA-256 (FIPS 180-4), for identities that are compared with published values or
// across machines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gptqb {

// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  void add(const void* data, size_t bytes);
  void add(std::string_view text) { add(text.data(), text.size()); }
  // 64 lower-case hex digits. The object must not be used afterwards.
  std::string hex();

 private:
  void compress(const uint8_t* block);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_;
  uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view text);

}  // namespace gptqb
