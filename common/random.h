// Python's random.Random(seed).randint, bit for bit: the published calibration draws depend on it
// (MT19937 seeded by init_by_array([seed]); see shared/reference/protocol.md section 1).
#pragma once

#include <cstdint>
#include <random>

namespace gptqb {

class PythonRandom {
 public:
  // The generator CPython has after random.seed(seed), seed >= 0.
  explicit PythonRandom(uint64_t seed);

  // Uniform integer in [low, high], both ends included, by CPython's rejection of the top bits.
  // Throws Error if high < low (CPython: ValueError "empty range").
  int64_t randint(int64_t low, int64_t high);

 private:
  std::mt19937 generator_;
};

}  // namespace gptqb
