#include "methods/reversed_cholesky.h"

#include <algorithm>
#include <vector>

#include "methods/parallel_parts.h"

namespace gptqb {
namespace {

// Columns that are finished at a time: wide enough that almost all work is in products whose inner
// dimension is the columns already finished.
constexpr int64_t kBlock = 256;
// Triangles of this width are inverted, so that a triangular solve is products too (the library's
// own runs at a tenth of their rate). They are small, so that their inverses lose no digits that
// the factor has.
constexpr int64_t kLeaf = 128;
// Rows that a thread takes at a time.
constexpr int64_t kRows = 1024;

at::Tensor part_of(const at::Tensor& matrix, int64_t top, int64_t bottom, int64_t left,
                   int64_t right) {
  return matrix.slice(0, top, bottom).slice(1, left, right);
}

// Rows [top, bottom) of columns [begin, end) lose what the finished columns right of them explain.
void subtract_finished(const at::Tensor& r, int64_t top, int64_t bottom, int64_t begin,
                       int64_t end) {
  const int64_t n = r.size(0);
  if (end == n || top == bottom) return;
  part_of(r, top, bottom, begin, end)
      .addmm_(part_of(r, top, bottom, end, n), part_of(r, begin, end, end, n).t(), 1, -1);
}

// A finished diagonal block, with which the rows above it are solved.
class DiagonalBlock {
 public:
  explicit DiagonalBlock(const at::Tensor& triangle) : triangle_(triangle) {
    for (int64_t end = triangle.size(0); end > 0; end -= std::min(end, kLeaf)) {
      const int64_t begin = std::max<int64_t>(0, end - kLeaf);
      const auto leaf = part_of(triangle, begin, end, begin, end);
      inverses_.push_back(at::linalg_solve_triangular(
          leaf, at::eye(end - begin, triangle.options()), /*upper=*/true));
    }
  }

  // X with X R^T = `rows`, in place, from the last columns to the first.
  void solve(const at::Tensor& rows) const {
    const int64_t width = triangle_.size(0);
    int64_t end = width;
    for (const auto& inverse : inverses_) {
      const int64_t begin = end - inverse.size(0);
      auto part = rows.slice(1, begin, end);
      if (end < width)
        part.addmm_(rows.slice(1, end), part_of(triangle_, begin, end, end, width).t(), 1, -1);
      part.copy_(at::mm(part, inverse.t()));
      end = begin;
    }
  }

 private:
  at::Tensor triangle_;
  std::vector<at::Tensor> inverses_;  // of its leaves, the last columns first
};

// The factor of the block of columns [begin, end) in place; `diagonal` is that of H.
bool factor_diagonal_block(const at::Tensor& r, const at::Tensor& diagonal, int64_t begin,
                           int64_t end, FactorFailure& failure) {
  auto block = part_of(r, begin, end, begin, end);
  const auto lower =
      cholesky_lower(block.flip({0, 1}), diagonal.slice(0, begin, end).flip({0}), failure);
  if (!lower) {
    failure.column = end - 1 - failure.column;
    return false;
  }
  block.copy_(lower->flip({0, 1}));
  return true;
}

bool factor_on_cpu(const at::Tensor& r, FactorFailure& failure) {
  const auto diagonal = r.diagonal().clone();
  for (int64_t end = r.size(0); end > 0; end -= std::min(end, kBlock)) {
    const int64_t begin = std::max<int64_t>(0, end - kBlock);
    parallel_parts(end - begin, kRows, 1, [&](int64_t top, int64_t bottom) {
      subtract_finished(r, begin + top, begin + bottom, begin, end);
    });
    if (!factor_diagonal_block(r, diagonal, begin, end, failure)) return false;
    const DiagonalBlock block(part_of(r, begin, end, begin, end));
    parallel_parts(begin, kRows, 1, [&](int64_t top, int64_t bottom) {
      subtract_finished(r, top, bottom, begin, end);
      block.solve(part_of(r, top, bottom, begin, end));
    });
  }
  return true;
}

std::optional<at::Tensor> factor_on_gpu(at::Tensor h, FactorFailure& failure) {
  const int64_t columns = h.size(0);
  const auto reversed = h.flip({0, 1});
  h.reset();
  const auto lower = cholesky_lower(reversed, failure);
  if (!lower) {
    failure.column = columns - 1 - failure.column;
    return std::nullopt;
  }
  return lower->flip({0, 1}).contiguous();  // the library's result lies by column
}

}  // namespace

std::optional<at::Tensor> reversed_cholesky(PreparedHessian& prepared, FactorFailure& failure) {
  auto matrix = std::move(prepared.matrix);
  prepared.matrix.reset();
  if (!matrix.is_cpu()) return factor_on_gpu(std::move(matrix), failure);
  matrix = matrix.contiguous();
  if (!factor_on_cpu(matrix, failure)) return std::nullopt;
  return matrix;
}

}  // namespace gptqb
