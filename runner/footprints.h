// What weights of published models take in memory, predicted from their shapes alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gptqb {

struct Footprint {
  std::string model;
  int64_t parameters = 0;
  int64_t linear_weights = 0;    // of all blocks: what is quantized
  int64_t cached_per_token = 0;  // keys and values
  bool runs = true;              // this program computes such models

  // Bytes in float16, and with linears of `bits` in groups of `group_size` (a scale of 16 bits and
  // a zero point of `bits` each) and all else in float16.
  double float16_bytes() const { return 2.0 * static_cast<double>(parameters); }
  double packed_bytes(int64_t bits, int64_t group_size) const;
  double cache_bytes(int64_t tokens) const {  // float16
    return 2.0 * static_cast<double>(cached_per_token * tokens);
  }
};

// Of every shape of published_shapes(), and of Mixtral 8x7B, whose experts this program does not
// compute.
std::vector<Footprint> footprints();

// A table of them, for `gptq-bench list footprints`.
std::string footprints_text();

}  // namespace gptqb
