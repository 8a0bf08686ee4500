// CPU OBQ: one row at a time on a thread. Columns that are left lie in slots 0 .. count - 1 without
// gaps, so that every loop runs over contiguous memory: the last slot moves into the place of the
// one removed. Of the inverse only the triangle below the diagonal is kept; the diagonal has an
// array of its own.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/impl/cpu_level.h"
#include "kernels/obq.h"

namespace gptqb::kernels {
namespace {

// The code of a weight, and what it stands for (kernels/solver.h, SweepChunk).
template <bool kTernary, class T>
[[gnu::always_inline]] inline T nearest_code(T weight, T scale, T zero, T max_code) {
  if constexpr (kTernary) {
    const T lower = weight < zero / 2 ? T(0) : T(1);
    return weight > scale / 2 ? T(2) : lower;
  }
  T code = std::rint(weight / scale) + zero;
  code = code < T(0) ? T(0) : code;
  return code > max_code ? max_code : code;
}
template <bool kTernary, class T>
[[gnu::always_inline]] inline T value_of(T code, T scale, T zero) {
  if constexpr (kTernary) {
    const T lower = code == T(0) ? zero : T(0);
    return code == T(2) ? scale : lower;
  }
  return scale * (code - zero);
}

template <bool kTernary, class T>
class Row {
 public:
  [[gnu::always_inline]] Row(const ObqRows<T>& problem, void* workspace)
      : problem_(problem), n_(problem.columns) {
    T* next = static_cast<T*>(workspace);
    const auto take = [&next](int64_t numbers) {
      T* const taken = next;
      next += numbers;
      return taken;
    };
    matrix_ = take(n_ * n_);
    pending_ = take(n_ * kPending);
    weights_ = take(n_);
    diagonal_ = take(n_);
    scales_ = take(n_);
    zeros_ = take(n_);
    errors_ = take(n_);
    scores_ = take(n_);
    columns_ = reinterpret_cast<int32_t*>(next);
  }

  [[gnu::always_inline]] void solve(int64_t row) {
    load(row);
    double loss = 0;
    problem_.failed[row] = -1;
    for (int64_t step = 0; step < n_; ++step) {
      const int64_t slot = problem_.greedy ? choose() : count_ - 1;
      const int32_t column = columns_[slot];
      const T pivot = diagonal_[slot];
      if (!(pivot > problem_.smallest_pivot * problem_.inverse[column * n_ + column])) {
        problem_.failed[row] = column;
        return;
      }
      const T code =
          nearest_code<kTernary>(weights_[slot], scales_[slot], zeros_[slot], problem_.max_code);
      const T error = weights_[slot] - value_of<kTernary>(code, scales_[slot], zeros_[slot]);
      problem_.codes[row * n_ + column] = static_cast<uint8_t>(code);
      problem_.steps[row * n_ + step] = column;
      loss += 0.5 * (static_cast<double>(error) * static_cast<double>(error)) /
              static_cast<double>(pivot);
      remove(slot, error, pivot);
    }
    problem_.losses[row] = loss;
  }

 private:
  static constexpr int64_t kPending = ObqRows<T>::kPending;

  // Columns from last to first, so that without a choice the next one is always in the last slot.
  [[gnu::always_inline]] void load(int64_t row) {
    count_ = n_;
    pending_count_ = 0;
    for (int64_t slot = 0; slot < n_; ++slot) {
      const int64_t column = n_ - 1 - slot;
      const int64_t grid = row * problem_.groups + problem_.group_of_column[column];
      columns_[slot] = static_cast<int32_t>(column);
      weights_[slot] = problem_.weights[row * n_ + column];
      scales_[slot] = problem_.scales[grid];
      zeros_[slot] = problem_.zeros[grid];
      const T* __restrict source = problem_.inverse + column * n_;
      diagonal_[slot] = source[column];
      T* __restrict target = matrix_ + slot * n_;
      for (int64_t j = 0; j < slot; ++j) target[j] = source[n_ - 1 - j];
    }
  }

  // The slot with the smallest (w - q)^2 / A_pp; the lower column of equals.
  [[gnu::always_inline]] int64_t choose() {
    const T* __restrict weights = weights_;
    const T* __restrict diagonal = diagonal_;
    const T* __restrict scales = scales_;
    const T* __restrict zeros = zeros_;
    T* __restrict errors = errors_;
    T* __restrict scores = scores_;
    const T max_code = problem_.max_code;
    for (int64_t s = 0; s < count_; ++s) {
      const T code = nearest_code<kTernary>(weights[s], scales[s], zeros[s], max_code);
      const T error = weights[s] - value_of<kTernary>(code, scales[s], zeros[s]);
      errors[s] = error * error;
      scores[s] = errors[s] / diagonal[s];
    }
    if (problem_.outlier_first)
      if (const int64_t outlier = largest_outlier(); outlier >= 0) return outlier;
    int64_t best = 0;
    for (int64_t s = 1; s < count_; ++s)
      if (scores_[s] < scores_[best] ||
          (scores_[s] == scores_[best] && columns_[s] < columns_[best]))
        best = s;
    return best;
  }

  // Of the slots whose error is above half a step, the one with the largest; -1 if there is none.
  [[gnu::always_inline]] int64_t largest_outlier() const {
    int64_t largest = -1;
    for (int64_t s = 0; s < count_; ++s) {
      if (!(errors_[s] > scales_[s] * scales_[s] / 4)) continue;
      if (largest < 0 || errors_[s] > errors_[largest] ||
          (errors_[s] == errors_[largest] && columns_[s] < columns_[largest]))
        largest = s;
    }
    return largest;
  }

  // The remaining weights make up for `error`, and the slot leaves the inverse.
  [[gnu::always_inline]] void remove(int64_t slot, T error, T pivot) {
    T* __restrict u = pending_ + pending_count_ * n_;
    const T* __restrict below = matrix_ + slot * n_;
    for (int64_t s = 0; s < slot; ++s) u[s] = below[s];
    u[slot] = 0;
    for (int64_t s = slot + 1; s < count_; ++s) u[s] = matrix_[s * n_ + slot];
    for (int64_t k = 0; k < pending_count_; ++k) {
      const T* __restrict earlier = pending_ + k * n_;
      const T factor = earlier[slot];
      for (int64_t s = 0; s < count_; ++s) u[s] -= factor * earlier[s];
    }
    const T root = std::sqrt(pivot);
    const T share = error / root;
    T* __restrict weights = weights_;
    T* __restrict diagonal = diagonal_;
    for (int64_t s = 0; s < count_; ++s) {
      u[s] /= root;
      weights[s] -= share * u[s];
      diagonal[s] -= u[s] * u[s];
    }
    ++pending_count_;
    fill_gap(slot);
    if (pending_count_ == kPending) rewrite();
  }

  [[gnu::always_inline]] void fill_gap(int64_t slot) {
    const int64_t last = --count_;
    if (slot == last) return;
    columns_[slot] = columns_[last];
    weights_[slot] = weights_[last];
    diagonal_[slot] = diagonal_[last];
    scales_[slot] = scales_[last];
    zeros_[slot] = zeros_[last];
    for (int64_t k = 0; k < pending_count_; ++k) pending_[k * n_ + slot] = pending_[k * n_ + last];
    const T* __restrict source = matrix_ + last * n_;
    std::memcpy(matrix_ + slot * n_, source, static_cast<size_t>(slot) * sizeof(T));
    for (int64_t s = slot + 1; s < last; ++s) matrix_[s * n_ + slot] = source[s];
  }

  // A <- A - sum of u u^T over all pending removals, below the diagonal: four rows by four
  // removals, so that a number that was read serves four times. What this writes above the diagonal
  // is never read.
  [[gnu::always_inline]] void rewrite() {
    static_assert(kPending % 4 == 0);
    for (int64_t begin = 0; begin < count_; begin += 4) {
      const int64_t end = std::min(begin + 4, count_);
      for (int64_t k = 0; k < kPending; k += 4) {
        const T* __restrict u0 = pending_ + k * n_;
        const T* __restrict u1 = u0 + n_;
        const T* __restrict u2 = u1 + n_;
        const T* __restrict u3 = u2 + n_;
        for (int64_t i = begin; i < end; ++i) {
          const T f0 = u0[i], f1 = u1[i], f2 = u2[i], f3 = u3[i];
          T* __restrict target = matrix_ + i * n_;
          for (int64_t j = 0; j < end; ++j)
            target[j] -= (f0 * u0[j] + f1 * u1[j]) + (f2 * u2[j] + f3 * u3[j]);
        }
      }
    }
    pending_count_ = 0;
  }

  const ObqRows<T>& problem_;
  const int64_t n_;
  int64_t count_ = 0;          // columns that are left
  int64_t pending_count_ = 0;  // removals that matrix_ has not seen
  T* matrix_;                  // [n, n]: the inverse by slots, below the diagonal
  T* pending_;                 // [kPending, n]: u of each such removal
  T* weights_;                 // [n]: current weights
  T* diagonal_;                // [n]: of the inverse, up to date
  T* scales_;                  // [n]
  T* zeros_;                   // [n]
  T* errors_;                  // [n]: squared
  T* scores_;                  // [n]
  int32_t* columns_;           // [n]: the column in each slot
};

template <class T>
[[gnu::always_inline]] inline void solve_rows(const ObqRows<T>& problem, int64_t first,
                                              int64_t step, void* workspace) {
  if (problem.ternary) {
    Row<true, T> solver(problem, workspace);
    for (int64_t row = first; row < problem.rows; row += step) solver.solve(row);
  } else {
    Row<false, T> solver(problem, workspace);
    for (int64_t row = first; row < problem.rows; row += step) solver.solve(row);
  }
}

template <class T>
void solve_baseline(const ObqRows<T>& problem, int64_t first, int64_t step, void* workspace) {
  solve_rows(problem, first, step, workspace);
}

#if GPTQB_X86_LEVELS
template <class T>
[[gnu::target("arch=x86-64-v3")]] void solve_avx2(const ObqRows<T>& problem, int64_t first,
                                                  int64_t step, void* workspace) {
  solve_rows(problem, first, step, workspace);
}

template <class T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void solve_avx512(
    const ObqRows<T>& problem, int64_t first, int64_t step, void* workspace) {
  solve_rows(problem, first, step, workspace);
}
#endif

template <class T>
using SolveFunction = void (*)(const ObqRows<T>&, int64_t, int64_t, void*);

template <class T>
SolveFunction<T> best_solve() {
#if GPTQB_X86_LEVELS
  const CpuLevel level = cpu_level();
  if (level == CpuLevel::kAvx512) return solve_avx512<T>;
  if (level == CpuLevel::kAvx2) return solve_avx2<T>;
#endif
  return solve_baseline<T>;
}

}  // namespace

void obq_cpu(const ObqRows<float>& problem, int64_t first, int64_t step, void* workspace) {
  static const SolveFunction<float> solve = best_solve<float>();
  solve(problem, first, step, workspace);
}

void obq_cpu(const ObqRows<double>& problem, int64_t first, int64_t step, void* workspace) {
  static const SolveFunction<double> solve = best_solve<double>();
  solve(problem, first, step, workspace);
}

}  // namespace gptqb::kernels
