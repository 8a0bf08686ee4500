#include "methods/second_moments_cpu.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "methods/parallel_parts.h"

namespace gptqb {
namespace {

// Half-precision values that are widened at a time: 32 MiB of f32. Each time the whole triangle of
// `sum` passes through memory once more.
constexpr int64_t kValuesPerChunk = int64_t{1} << 23;

// Large tiles make products quick, many tiles can be shared out evenly.
int64_t tile_width(int64_t n) {
  constexpr int64_t kSmallest = 128;
  constexpr int64_t kLargest = 512;
  constexpr int64_t kTilesAcross = 8;
  return std::clamp(n / kTilesAcross, kSmallest, kLargest);
}

void add_chunk(at::Tensor& sum, const at::Tensor& x) {
  const int64_t n = x.size(1);
  const int64_t width = tile_width(n);
  std::vector<std::pair<int64_t, int64_t>> tiles;  // first row and column of each
  for (int64_t row = 0; row < n; row += width)
    for (int64_t column = row; column < n; column += width) tiles.emplace_back(row, column);
  const auto count = static_cast<int64_t>(tiles.size());
  parallel_parts(count, 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto [row, column] = tiles[static_cast<size_t>(i)];
      sum.slice(0, row, row + width)
          .slice(1, column, column + width)
          .addmm_(x.slice(1, row, row + width).t(), x.slice(1, column, column + width));
    }
  });
}

}  // namespace

void add_second_moments_cpu(at::Tensor& sum, const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return add_chunk(sum, x);
  const int64_t rows = std::max<int64_t>(1, kValuesPerChunk / std::max<int64_t>(x.size(1), 1));
  for (int64_t begin = 0; begin < x.size(0); begin += rows)
    add_chunk(sum, x.slice(0, begin, begin + rows).to(at::kFloat));
}

}  // namespace gptqb
