// CUDA OBQ: one block a row, as many blocks as the workspace has room for, each going on to another
// row when its own is done. Columns that are left lie in slots 0 .. count - 1 without gaps, as on
// the CPU; the inverse is kept as a full square, so that its rows are read by neighbouring threads.
#include "kernels/cuda_check.h"
#include "kernels/device/rounding.cuh"
#include "kernels/obq.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kPending = static_cast<int>(ObqRows<float>::kPending);

// A candidate for the next column. Less is better; the lower column of equals.
template <class T>
struct Candidate {
  T score;
  int column;
  int slot;  // -1: none
};

template <class T>
__device__ inline bool better(const Candidate<T>& a, const Candidate<T>& b) {
  if (a.slot < 0) return false;
  if (b.slot < 0) return true;
  return a.score < b.score || (a.score == b.score && a.column < b.column);
}

// The best of all threads' candidates, in every thread.
template <class T>
__device__ Candidate<T> best_of_block(Candidate<T> mine, Candidate<T>* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    Candidate<T> other;
    other.score = __shfl_down_sync(0xffffffffU, mine.score, offset);
    other.column = __shfl_down_sync(0xffffffffU, mine.column, offset);
    other.slot = __shfl_down_sync(0xffffffffU, mine.slot, offset);
    if (better(other, mine)) mine = other;
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  Candidate<T> best = shared[0];
  for (int warp = 1; warp < kWarps; ++warp)
    if (better(shared[warp], best)) best = shared[warp];
  __syncthreads();
  return best;
}

// What a row keeps in its part of the workspace.
template <class T>
struct RowState {
  T* matrix;    // [n, n]: the inverse by slots; its diagonal is not kept up to date
  T* pending;   // [n, kPending]: u of each removal that `matrix` has not seen
  T* weights;   // [n]
  T* diagonal;  // [n]
  T* scales;    // [n]
  T* zeros;     // [n]
  int32_t* columns;

  __device__ RowState(void* workspace, int64_t n) {
    T* next = static_cast<T*>(workspace);
    matrix = next;
    pending = matrix + n * n;
    weights = pending + n * kPending;
    diagonal = weights + n;
    scales = diagonal + n;
    zeros = scales + n;
    columns = reinterpret_cast<int32_t*>(zeros + 3 * n);  // the CPU keeps two more arrays
  }

  __device__ T code(int slot, T max_code, bool ternary) const {
    if (ternary) {
      const T lower = weights[slot] < zeros[slot] / 2 ? T(0) : T(1);
      return weights[slot] > scales[slot] / 2 ? T(2) : lower;
    }
    T code = round_half_even(divide(weights[slot], scales[slot])) + zeros[slot];
    code = code < T(0) ? T(0) : code;
    return code > max_code ? max_code : code;
  }
  __device__ T error(int slot, T max_code, bool ternary) const {
    const T taken = code(slot, max_code, ternary);
    if (ternary) {
      const T lower = taken == T(0) ? zeros[slot] : T(0);
      return weights[slot] - (taken == T(2) ? scales[slot] : lower);
    }
    return weights[slot] - scales[slot] * (taken - zeros[slot]);
  }
};

template <class T>
__device__ int choose(const ObqRows<T>& problem, const RowState<T>& state, int count,
                      Candidate<T>* shared) {
  Candidate<T> best{T(0), 0, -1};
  Candidate<T> outlier{T(0), 0, -1};
  for (int s = threadIdx.x; s < count; s += kThreads) {
    const T error = state.error(s, problem.max_code, problem.ternary);
    const T square = error * error;
    const Candidate<T> candidate{divide(square, state.diagonal[s]), state.columns[s], s};
    if (better(candidate, best)) best = candidate;
    if (problem.outlier_first && square > state.scales[s] * state.scales[s] / 4) {
      const Candidate<T> large{-square, state.columns[s], s};
      if (better(large, outlier)) outlier = large;
    }
  }
  if (problem.outlier_first) {
    outlier = best_of_block(outlier, shared);
    if (outlier.slot >= 0) return outlier.slot;
  }
  return best_of_block(best, shared).slot;
}

template <class T>
__device__ void load(const ObqRows<T>& problem, const RowState<T>& state, int64_t row) {
  const int n = static_cast<int>(problem.columns);
  for (int slot = threadIdx.x; slot < n; slot += kThreads) {
    const int column = n - 1 - slot;
    const int64_t grid = row * problem.groups + problem.group_of_column[column];
    state.columns[slot] = column;
    state.weights[slot] = problem.weights[row * n + column];
    state.scales[slot] = problem.scales[grid];
    state.zeros[slot] = problem.zeros[grid];
    state.diagonal[slot] = problem.inverse[static_cast<int64_t>(column) * n + column];
  }
  const int64_t all = static_cast<int64_t>(n) * n;
  for (int64_t k = threadIdx.x; k < all; k += kThreads)
    state.matrix[k] = problem.inverse[all - 1 - k];
}

// A <- A - sum of u u^T: a thread keeps the u of one column in registers and walks down its share
// of the rows.
template <class T>
__device__ void rewrite(const RowState<T>& state, int64_t n, int count) {
  const int width = (count + 31) / 32 * 32;
  const int parts = width < kThreads ? kThreads / width : 1;
  const int part = parts > 1 ? threadIdx.x / width : 0;
  if (part >= parts) return;
  const int stride = parts > 1 ? width : kThreads;
  for (int j = threadIdx.x - part * width; j < count; j += stride) {
    T mine[kPending];
#pragma unroll
    for (int k = 0; k < kPending; ++k) mine[k] = state.pending[j * kPending + k];
    for (int i = part; i < count; i += parts) {
      const T* other = state.pending + static_cast<int64_t>(i) * kPending;
      T value = state.matrix[i * n + j];
#pragma unroll
      for (int k = 0; k < kPending; ++k) value -= other[k] * mine[k];
      state.matrix[i * n + j] = value;
    }
  }
}

template <class T>
__device__ void remove(const RowState<T>& state, int64_t n, int count, int slot, int pending,
                       T error, T pivot, T* shared_pending) {
  if (threadIdx.x < pending)
    shared_pending[threadIdx.x] =
        state.pending[static_cast<int64_t>(slot) * kPending + threadIdx.x];
  __syncthreads();
  const T root = square_root(pivot);
  const T share = divide(error, root);
  for (int s = threadIdx.x; s < count; s += kThreads) {
    T* const own = state.pending + static_cast<int64_t>(s) * kPending;
    T value = state.matrix[slot * n + s];
    for (int k = 0; k < pending; ++k) value -= shared_pending[k] * own[k];
    value = divide(value, root);
    own[pending] = value;
    state.weights[s] -= share * value;
    state.diagonal[s] -= value * value;
  }
  __syncthreads();
  const int last = count - 1;
  if (slot == last) return;
  // The last slot moves into the gap.
  for (int s = threadIdx.x; s < last; s += kThreads) {
    state.matrix[slot * n + s] = state.matrix[last * n + s];
    if (s != slot) state.matrix[s * n + slot] = state.matrix[s * n + last];
  }
  if (threadIdx.x <= pending)
    state.pending[static_cast<int64_t>(slot) * kPending + threadIdx.x] =
        state.pending[static_cast<int64_t>(last) * kPending + threadIdx.x];
  if (threadIdx.x == 0) {
    state.columns[slot] = state.columns[last];
    state.weights[slot] = state.weights[last];
    state.diagonal[slot] = state.diagonal[last];
    state.scales[slot] = state.scales[last];
    state.zeros[slot] = state.zeros[last];
  }
}

template <class T>
__device__ void solve(const ObqRows<T>& problem, const RowState<T>& state, int64_t row,
                      Candidate<T>* shared, T* shared_pending) {
  const int64_t n = problem.columns;
  double loss = 0;
  int pending = 0;
  for (int step = 0; step < n; ++step) {
    const int count = static_cast<int>(n) - step;
    const int slot = problem.greedy ? choose(problem, state, count, shared) : count - 1;
    // All threads read the same values before any of them is changed.
    const int column = state.columns[slot < 0 ? 0 : slot];
    const T pivot = state.diagonal[slot < 0 ? 0 : slot];
    const T first = problem.inverse[column * n + column];
    if (slot < 0 || !(pivot > problem.smallest_pivot * first)) {
      if (threadIdx.x == 0) problem.failed[row] = column;
      return;
    }
    const T code = state.code(slot, problem.max_code, problem.ternary);
    const T error = state.error(slot, problem.max_code, problem.ternary);
    loss += 0.5 * (static_cast<double>(error) * static_cast<double>(error)) /
            static_cast<double>(pivot);
    if (threadIdx.x == 0) {
      problem.codes[row * n + column] = static_cast<uint8_t>(code);
      problem.steps[row * n + step] = column;
    }
    __syncthreads();
    remove(state, n, count, slot, pending, error, pivot, shared_pending);
    __syncthreads();
    if (++pending == kPending) {
      rewrite(state, n, count - 1);
      pending = 0;
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) {
    problem.losses[row] = loss;
    problem.failed[row] = -1;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    obq_kernel(ObqRows<T> problem, char* workspace, int64_t bytes) {
  __shared__ Candidate<T> shared[kWarps];
  __shared__ T shared_pending[kPending];
  const RowState<T> state(workspace + blockIdx.x * bytes, problem.columns);
  for (int64_t row = blockIdx.x; row < problem.rows; row += gridDim.x) {
    load(problem, state, row);
    __syncthreads();
    solve(problem, state, row, shared, shared_pending);
    __syncthreads();
  }
}

template <class T>
void launch(const ObqRows<T>& problem, int64_t in_flight, void* workspace, void* stream) {
  if (problem.rows == 0 || problem.columns == 0) return;
  obq_kernel<T>
      <<<static_cast<unsigned>(in_flight), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          problem, static_cast<char*>(workspace),
          static_cast<int64_t>(obq_workspace_bytes<T>(problem.columns)));
  GPTQB_CUDA_LAUNCHED("obq_kernel");
}

}  // namespace

void obq_cuda(const ObqRows<float>& problem, int64_t in_flight, void* workspace, void* stream) {
  launch(problem, in_flight, workspace, stream);
}
void obq_cuda(const ObqRows<double>& problem, int64_t in_flight, void* workspace, void* stream) {
  launch(problem, in_flight, workspace, stream);
}

}  // namespace gptqb::kernels
