#include "common/random.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "common/error.h"

namespace gptqb {

namespace {

// Stands in for std::seed_seq: hands std::mt19937 the state that MT19937's init_by_array makes of
// the words of `seed` (Matsumoto and Nishimura's reference initialisation, which CPython uses).
class InitByArray {
 public:
  using result_type = uint32_t;

  explicit InitByArray(uint64_t seed) {
    key_.push_back(static_cast<uint32_t>(seed));
    if (seed >> 32) key_.push_back(static_cast<uint32_t>(seed >> 32));
  }

  template <class Iterator>
  void generate(Iterator begin, Iterator end) {
    std::vector<uint32_t> state(static_cast<size_t>(end - begin));
    const size_t n = state.size();
    state[0] = 19650218u;
    for (size_t i = 1; i < n; ++i)
      state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + static_cast<uint32_t>(i);
    size_t i = 1;
    size_t j = 0;
    const auto next = [&] {
      if (++i >= n) {
        state[0] = state[n - 1];
        i = 1;
      }
    };
    for (size_t step = 0; step < std::max(n, key_.size()); ++step) {
      const uint32_t mixed = (state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u;
      state[i] = (state[i] ^ mixed) + key_[j] + static_cast<uint32_t>(j);
      if (++j >= key_.size()) j = 0;
      next();
    }
    for (size_t step = 0; step + 1 < n; ++step) {
      const uint32_t mixed = (state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u;
      state[i] = (state[i] ^ mixed) - static_cast<uint32_t>(i);
      next();
    }
    state[0] = 0x80000000u;
    std::copy(state.begin(), state.end(), begin);
  }

 private:
  std::vector<uint32_t> key_;
};

std::mt19937 seeded(uint64_t seed) {
  InitByArray sequence(seed);
  return std::mt19937(sequence);
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) : generator_(seeded(seed)) {}

int64_t PythonRandom::randint(int64_t low, int64_t high) {
  if (high < low)
    throw Error("randint", "expected a range with at least one integer, got [" +
                               std::to_string(low) + ", " + std::to_string(high) + "]");
  // Unsigned, so that the widest ranges do not overflow; 0 stands for 2^64.
  const uint64_t size = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const int bits = size == 0 ? 65 : std::bit_width(size);
  while (true) {
    // CPython's getrandbits: 32-bit words from the lowest up, the last one cut to its top bits.
    uint64_t value = 0;
    bool too_large = false;
    for (int done = 0; done < bits; done += 32) {
      uint64_t word = generator_();
      if (bits - done < 32) word >>= 32 - (bits - done);
      if (done < 64)
        value |= word << done;
      else
        too_large = word != 0;
    }
    if (size == 0 ? !too_large : value < size)
      return static_cast<int64_t>(static_cast<uint64_t>(low) + value);
  }
}

}  // namespace gptqb
