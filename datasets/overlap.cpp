#include "datasets/overlap.h"

#include <algorithm>

namespace gptqb {

namespace {

// Polynomial hashes modulo 2^64 of all runs of `n` ids, rolled along; ids are scrambled first
// because the modulus is a power of two.
std::vector<uint64_t> run_hashes(const std::vector<int32_t>& ids, size_t n) {
  if (ids.size() < n) return {};
  constexpr uint64_t kBase = 0x9E3779B97F4A7C15ull;
  const auto scramble = [](int32_t id) {
    uint64_t x = static_cast<uint64_t>(static_cast<uint32_t>(id)) + kBase;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  };
  uint64_t leaving = 1;  // weight of the id that leaves the run
  for (size_t i = 0; i < n; ++i) leaving *= kBase;
  std::vector<uint64_t> hashes;
  hashes.reserve(ids.size() - n + 1);
  uint64_t hash = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    hash = hash * kBase + scramble(ids[i]);
    if (i >= n) hash -= leaving * scramble(ids[i - n]);
    if (i + 1 >= n) hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace

double ngram_overlap(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int n) {
  if (n < 1) return 0.0;
  std::vector<uint64_t> known = run_hashes(a, static_cast<size_t>(n));
  const std::vector<uint64_t> runs = run_hashes(b, static_cast<size_t>(n));
  if (runs.empty()) return 0.0;
  std::sort(known.begin(), known.end());
  const auto shared = std::count_if(runs.begin(), runs.end(), [&](uint64_t run) {
    return std::binary_search(known.begin(), known.end(), run);
  });
  return static_cast<double>(shared) / static_cast<double>(runs.size());
}

}  // namespace gptqb
