// CPU sweep: tiles of rows stay in the first-level cache, lanes run across rows. The same body is
// compiled for AVX-512, AVX2 and the baseline, and the best one this processor has is chosen at the
// first call.
#include <algorithm>
#include <cmath>

#include "kernels/impl/cpu_level.h"
#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

// 32 columns x 64 rows of errors: 8 KiB in f32.
constexpr int64_t kTileRows = 64;

// t = W + carried + sum over earlier columns of the chunk of E N, for the rows of one tile.
template <class T, int kRows>
[[gnu::always_inline]] inline void column_values(const SweepChunk<T>& chunk, int64_t column,
                                                 int64_t first_row,
                                                 const T (*__restrict errors)[kRows],
                                                 T* __restrict values) {
  const T* __restrict weights = chunk.weights + column * chunk.rows + first_row;
  const T* __restrict carried = chunk.carried + column * chunk.rows + first_row;
  for (int r = 0; r < kRows; ++r) values[r] = weights[r] + carried[r];
  for (int64_t i = 0; i < column; ++i) {
    const T factor = chunk.factor[i * chunk.factor_stride + column];
    for (int r = 0; r < kRows; ++r) values[r] += errors[i][r] * factor;
  }
}

// A value becomes a code and what the code stands for.
template <class T>
struct Choice {
  T code;
  T value;
};

template <class T, bool kTernary>
[[gnu::always_inline]] inline Choice<T> choose(T value, T scale, T zero, T max_code) {
  if constexpr (kTernary) {
    const bool upper = value > scale / 2;
    const bool lower = value < zero / 2;
    return {upper ? T(2) : lower ? T(0) : T(1), upper ? scale : lower ? zero : T(0)};
  } else {
    T code = std::rint(value / scale) + zero;
    code = code < T(0) ? T(0) : code;
    code = code > max_code ? max_code : code;
    return {code, scale * (code - zero)};
  }
}

// One tile of exactly kRows rows: 64, then 8 and 1 for those that do not fill a tile.
template <class T, int kRows, bool kTernary>
[[gnu::always_inline]] inline void sweep_tile(const SweepChunk<T>& chunk, int64_t first_row) {
  T errors[SweepChunk<T>::kMaxColumns][kRows];
  T values[kRows];
  T codes[kRows];
  double losses[kRows] = {};
  const T max_code = chunk.max_code;
  for (int64_t column = 0; column < chunk.columns; ++column) {
    column_values<T, kRows>(chunk, column, first_row, errors, values);
    const int64_t at = column * chunk.rows + first_row;
    const int64_t grid = chunk.group_of_column[column] * chunk.rows + first_row;
    const T* __restrict scales = chunk.scales + grid;
    const T* __restrict zeros = chunk.zeros + grid;
    const T* __restrict weights = chunk.weights + at;
    T* __restrict error = errors[column];
    T* __restrict error_out = chunk.errors + at;
    const T diagonal = chunk.diagonal[column];
    for (int r = 0; r < kRows; ++r) {
      const auto chosen = choose<T, kTernary>(values[r], scales[r], zeros[r], max_code);
      const T miss = (values[r] - chosen.value) * diagonal;
      losses[r] += 0.5 * (static_cast<double>(miss) * static_cast<double>(miss));
      error[r] = weights[r] - chosen.value;
      error_out[r] = error[r];
      codes[r] = chosen.code;
    }
    uint8_t* __restrict code_out = chunk.codes + at;
    for (int r = 0; r < kRows; ++r) code_out[r] = static_cast<uint8_t>(codes[r]);
  }
  for (int r = 0; r < kRows; ++r) chunk.losses[first_row + r] += losses[r];
}

template <class T, bool kTernary>
[[gnu::always_inline]] inline void sweep_tiles(const SweepChunk<T>& chunk, int64_t row_begin,
                                               int64_t row_end) {
  int64_t row = row_begin;
  for (; row + kTileRows <= row_end; row += kTileRows)
    sweep_tile<T, kTileRows, kTernary>(chunk, row);
  for (; row + 8 <= row_end; row += 8) sweep_tile<T, 8, kTernary>(chunk, row);
  for (; row < row_end; ++row) sweep_tile<T, 1, kTernary>(chunk, row);
}

template <class T>
[[gnu::always_inline]] inline void sweep_rows(const SweepChunk<T>& chunk, int64_t row_begin,
                                              int64_t row_end) {
  if (chunk.ternary)
    sweep_tiles<T, true>(chunk, row_begin, row_end);
  else
    sweep_tiles<T, false>(chunk, row_begin, row_end);
}

template <class T>
void sweep_baseline(const SweepChunk<T>& chunk, int64_t row_begin, int64_t row_end) {
  sweep_rows(chunk, row_begin, row_end);
}

#if GPTQB_X86_LEVELS
template <class T>
[[gnu::target("arch=x86-64-v3")]] void sweep_avx2(const SweepChunk<T>& chunk, int64_t row_begin,
                                                  int64_t row_end) {
  sweep_rows(chunk, row_begin, row_end);
}

template <class T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void sweep_avx512(
    const SweepChunk<T>& chunk, int64_t row_begin, int64_t row_end) {
  sweep_rows(chunk, row_begin, row_end);
}
#endif

template <class T>
using SweepFunction = void (*)(const SweepChunk<T>&, int64_t, int64_t);

template <class T>
SweepFunction<T> best_sweep() {
#if GPTQB_X86_LEVELS
  const CpuLevel level = cpu_level();
  if (level == CpuLevel::kAvx512) return sweep_avx512<T>;
  if (level == CpuLevel::kAvx2) return sweep_avx2<T>;
#endif
  return sweep_baseline<T>;
}

}  // namespace

void sweep_cpu(const SweepChunk<float>& chunk, int64_t row_begin, int64_t row_end) {
  static const SweepFunction<float> sweep = best_sweep<float>();
  sweep(chunk, row_begin, row_end);
}

void sweep_cpu(const SweepChunk<double>& chunk, int64_t row_begin, int64_t row_end) {
  static const SweepFunction<double> sweep = best_sweep<double>();
  sweep(chunk, row_begin, row_end);
}

}  // namespace gptqb::kernels
