// CUDA sweep of up to 128 columns. Eight threads a row: few rows must fill many multiprocessors,
// and a column's error reaches the columns behind it in an eighth of the steps.
//
// Thread `part` of a row owns the columns c with c / 4 % 8 == part: four in a row, so that it reads
// four numbers of N at a time. Columns go in subblocks of 32 whose values live in registers; the
// values of later columns wait in shared memory, each touched by its owner alone.
#include "kernels/cuda_check.h"
#include "kernels/device/rounding.cuh"
#include "kernels/divider.h"
#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

constexpr int kColumns = static_cast<int>(SweepChunk<float>::kMaxCudaColumns);
constexpr int kSubblock = 32;
constexpr int kParts = 8;  // threads a row
constexpr int kRows = 32;  // rows a block
constexpr int kThreads = kParts * kRows;
constexpr int kRowsPerWarp = 32 / kParts;
constexpr int kOwned = kSubblock / kParts;  // columns of a subblock that a thread owns
constexpr int kSpan = 4 * kParts;           // columns of which all parts own four
// Values of one column lie together; the padding puts the parts of a warp in different banks.
constexpr int kStride = kRows + 1;

template <class T>
constexpr size_t kSharedBytes = (kColumns * kColumns + kColumns * kStride) * sizeof(T);

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T value[4];
};

// Column within a subblock of a thread's k-th value.
__host__ __device__ constexpr int owned_column(int k, int part) {
  return k / 4 * kSpan + part * 4 + k % 4;
}
// The other way round.
__host__ __device__ constexpr int owner_of(int column) { return column % kSpan / 4; }
__host__ __device__ constexpr int index_of(int column) { return column / kSpan * 4 + column % 4; }

struct Place {
  int local;  // row within the block
  int part;
  int lane;     // of the row's first thread
  int64_t row;  // of the matrix
};

__device__ inline Place place() {
  const int lane = threadIdx.x % 32;
  const int local = static_cast<int>(threadIdx.x) / 32 * kRowsPerWarp + lane % kRowsPerWarp;
  return {local, lane / kRowsPerWarp, lane % kRowsPerWarp,
          static_cast<int64_t>(blockIdx.x) * kRows + local};
}

// N above its diagonal, zero elsewhere. A warp reads a row at a time, four numbers a thread where
// they are aligned; several rows are on their way at once.
template <class T>
__device__ void load_factor(const T* source, int64_t stride, int columns, T* factor) {
  const int j = threadIdx.x % 32 * 4;
  const bool aligned =
      reinterpret_cast<uintptr_t>(source) % sizeof(Four<T>) == 0 && stride % 4 == 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x) / 32; i < kColumns; i += kThreads / 32) {
    Four<T> four = {};
    const T* const from = source + i * stride + j;
    if (i < j + 3 && aligned && j + 3 < columns) {
      four = *reinterpret_cast<const Four<T>*>(from);
    } else if (i < j + 3) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (j + k < columns && i < columns) four.value[k] = from[k];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i >= j + k) four.value[k] = T(0);
    *reinterpret_cast<Four<T>*>(factor + i * kColumns + j) = four;
  }
}

// values[c][r] = weights[c][r] + carried[c][r], zero beyond the matrix.
template <class T>
__device__ void load_values(const SweepChunk<T>& chunk, T* values) {
  const int local = threadIdx.x % kRows;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + local;
#pragma unroll 8
  for (int column = static_cast<int>(threadIdx.x) / kRows; column < kColumns;
       column += kThreads / kRows) {
    T value = T(0);
    if (column < chunk.columns && row < chunk.rows) {
      const int64_t at = column * chunk.rows + row;
      value = chunk.weights[at] + chunk.carried[at];
    }
    values[column * kStride + local] = value;
  }
}

// The columns of a subblock that a thread owns: their grids, and how a value is rounded to them.
template <class T, bool kTernary>
struct Subblock {
  struct Choice {
    T code;
    T quantized;
  };

  const SweepChunk<T>& chunk;
  const Place& at;
  T weight[kOwned], scale[kOwned], zero[kOwned];
  Divider<T> by_scale[kOwned];

  __device__ bool is_real(int column) const {
    return column < chunk.columns && at.row < chunk.rows;
  }

  __device__ void load(int begin) {
#pragma unroll
    for (int k = 0; k < kOwned; ++k) {
      const int column = begin + owned_column(k, at.part);
      const bool real = is_real(column);
      const int64_t grid = real ? chunk.group_of_column[column] * chunk.rows + at.row : 0;
      weight[k] = real ? chunk.weights[column * chunk.rows + at.row] : T(0);
      scale[k] = real ? chunk.scales[grid] : T(1);
      zero[k] = real ? chunk.zeros[grid] : T(0);
      if constexpr (!kTernary) by_scale[k].prepare(scale[k]);
    }
  }

  __device__ Choice choose(int k, T value) const {
    if constexpr (kTernary) {
      const bool upper = value > scale[k] / 2;
      const bool lower = value < zero[k] / 2;
      return {upper ? T(2) : lower ? T(0) : T(1), upper ? scale[k] : lower ? zero[k] : T(0)};
    } else {
      T code = round_half_even(by_scale[k](value)) + zero[k];
      code = code < T(0) ? T(0) : code;
      code = code > chunk.max_code ? chunk.max_code : code;
      return {code, scale[k] * (code - zero[k])};
    }
  }

  // What the columns behind the k-th receive times N.
  __device__ T error(int k, T value) const { return weight[k] - choose(k, value).quantized; }

  // Writes what became of the final values of the subblock that starts at `begin`; their loss.
  __device__ double finish(int begin, const T (&values)[kOwned]) const {
    double loss = 0;
#pragma unroll
    for (int k = 0; k < kOwned; ++k) {
      const int column = begin + owned_column(k, at.part);
      if (!is_real(column)) continue;
      const Choice chosen = choose(k, values[k]);
      const T miss = (values[k] - chosen.quantized) * chunk.diagonal[column];
      loss += 0.5 * (static_cast<double>(miss) * static_cast<double>(miss));
      chunk.errors[column * chunk.rows + at.row] = weight[k] - chosen.quantized;
      chunk.codes[column * chunk.rows + at.row] = static_cast<uint8_t>(chosen.code);
    }
    return loss;
  }
};

// Columns one after another; the thread's loss.
template <class T, bool kTernary>
__device__ double run_columns(const SweepChunk<T>& chunk, const T* factor, T* values,
                              const Place& at) {
  const int columns = static_cast<int>(chunk.columns);
  Subblock<T, kTernary> own{chunk, at};
  own.load(0);
  double loss = 0;
  for (int begin = 0; begin < columns; begin += kSubblock) {
    T mine[kOwned];
#pragma unroll
    for (int k = 0; k < kOwned; ++k)
      mine[k] = values[(begin + owned_column(k, at.part)) * kStride + at.local];

    // Nothing is written and nothing branches here: a column must wait for the one before it, and
    // for nothing else. N is zero at and below its diagonal, so that final values stay.
    T sent[kSubblock];
#pragma unroll
    for (int j = 0; j < kSubblock; ++j) {
      const T error = own.error(index_of(j), mine[index_of(j)]);
      sent[j] = __shfl_sync(0xffffffffU, error, at.lane + owner_of(j) * kRowsPerWarp);
#pragma unroll
      for (int group = j / kSpan; group < kSubblock / kSpan; ++group) {
        const auto n = *reinterpret_cast<const Four<T>*>(factor + (begin + j) * kColumns + begin +
                                                         group * kSpan + at.part * 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) mine[group * 4 + k] += sent[j] * n.value[k];
      }
    }
    loss += own.finish(begin, mine);
    // On its way while the products below run.
    own.load(begin + kSubblock);

    // What the subblock sends to all columns behind it.
    for (int next = begin + kSubblock + at.part * 4; next < columns; next += kSpan) {
      T sum[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] = values[(next + k) * kStride + at.local];
#pragma unroll
      for (int i = 0; i < kSubblock; ++i) {
        const auto n = *reinterpret_cast<const Four<T>*>(factor + (begin + i) * kColumns + next);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] += sent[i] * n.value[k];
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) values[(next + k) * kStride + at.local] = sum[k];
    }
  }
  return loss;
}

template <class T, bool kTernary>
__global__ void __launch_bounds__(kThreads) sweep_kernel(SweepChunk<T> chunk) {
  extern __shared__ __align__(32) unsigned char shared[];
  T* const factor = reinterpret_cast<T*>(shared);
  T* const values = factor + kColumns * kColumns;
  load_factor(chunk.factor, chunk.factor_stride, static_cast<int>(chunk.columns), factor);
  load_values(chunk, values);
  __syncthreads();
  const Place at = place();
  double loss = run_columns<T, kTernary>(chunk, factor, values, at);
  for (int offset = kRowsPerWarp; offset < 32; offset *= 2)
    loss += __shfl_xor_sync(0xffffffffU, loss, offset);
  if (at.part == 0 && at.row < chunk.rows) chunk.losses[at.row] += loss;
}

template <class T, bool kTernary>
void launch(const SweepChunk<T>& chunk, void* stream) {
  const auto kernel = sweep_kernel<T, kTernary>;
  GPTQB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes<T>)));
  const auto blocks = static_cast<unsigned>((chunk.rows + kRows - 1) / kRows);
  kernel<<<blocks, kThreads, kSharedBytes<T>, static_cast<cudaStream_t>(stream)>>>(chunk);
  check_cuda(cudaGetLastError(), "launch of sweep_kernel");
}

template <class T>
void sweep(const SweepChunk<T>& chunk, void* stream) {
  if (chunk.rows == 0) return;
  if (chunk.ternary)
    launch<T, true>(chunk, stream);
  else
    launch<T, false>(chunk, stream);
}

}  // namespace

void sweep_cuda(const SweepChunk<float>& chunk, void* stream) { sweep(chunk, stream); }
void sweep_cuda(const SweepChunk<double>& chunk, void* stream) { sweep(chunk, stream); }

}  // namespace gptqb::kernels
