// A thread block has some positions of one head of one sequence, mostly all. kLanes neighbouring
// threads hold one vector of a head, eight values each; such groups take positions in turn, several
// at once, so that reading them overlaps; the first ones while the kernel before still runs.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/decode.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/forward.h"
#include "kernels/launch_early.h"

namespace gptqb::kernels {
namespace {

// Of a thread block: few where blocks are many, so that one computes while another reads.
constexpr int kFewThreads = 128;
constexpr int kManyThreads = 256;
constexpr int kAtOnce = 4;  // positions of a group
// Positions a thread block should have, so that adding up what several of them have pays.
constexpr int64_t kLeastPositions = 256;
static_assert(kVector == kHalfVector);

// Sums over keys so far: of exp(score - largest), and of that times their values.
struct Sums {
  float largest = -INFINITY;
  float shares = 0;
  float values[kVector] = {};
};

__device__ float weight_of(float largest, float of_all) {
  return largest == -INFINITY ? 0.0F : exp2f(largest - of_all);
}

template <class T>
__device__ void widen_all(float (&out)[kVector], const Eight<T>& from) {
#pragma unroll
  for (int k = 0; k < kVector; ++k) out[k] = widen(from.value[k]);
}

template <int kLanes>
__device__ float over_lanes(float sum) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, offset);
  return sum;
}

// By which a lane's values are turned.
template <class T>
struct Turns {
  Eight<T> cosine, sine;
};

// A vector, turned by the new token's position. `lane` holds values 8 lane ..; lanes past the end
// hold zeros.
template <class T>
__device__ void turned(float (&out)[kVector], const T* vector, int lane, int lanes, bool turns,
                       const Turns<T>& by) {
  const int half = lanes / 2;
  if (lane >= lanes) {
#pragma unroll
    for (float& value : out) value = 0;
    return;
  }
  widen_all(out, load<T>(vector, lane));
  if (!turns) return;
  const bool low = lane < half;
  float other[kVector];
  widen_all(other, load<T>(vector, low ? lane + half : lane - half));
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float c = widen(by.cosine.value[k]), s = widen(by.sine.value[k]);
    const float turn = multiply<T>(other[k], s);
    out[k] = add<T>(multiply<T>(out[k], c), low ? -turn : turn);
  }
}

template <class T, int kLanes, int kThreads>
__global__ void __launch_bounds__(kThreads)
    decode_attention_kernel(DecodeAttention problem, int splits) {
  constexpr int kWarps = kThreads / 32;
  constexpr int kGroups = kThreads / kLanes;
  constexpr int kWidth = kLanes * kVector;
  constexpr float kLog2E = 1.4426950408889634F;
  __shared__ float warp_largest[kWarps], warp_shares[kWarps];
  __shared__ float warp_values[kWarps][kWidth];
  __shared__ bool last;
  const int split = static_cast<int>(blockIdx.x) % splits;
  const int head = static_cast<int>(blockIdx.x) / splits;
  const int64_t sequence = blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int dim = static_cast<int>(problem.head_dim);
  const int lanes = dim / kVector;
  const auto kv_head = head / static_cast<int>(problem.heads / problem.kv_heads);
  const int64_t cached = (sequence * problem.kv_heads + kv_head) * problem.positions * dim;
  T* const cached_keys = static_cast<T*>(problem.cached_keys) + cached;
  T* const cached_values = static_cast<T*>(problem.cached_values) + cached;
  let_next_begin();

  // What stands since before the kernel in front of this one.
  const auto position = static_cast<int>(*problem.position);
  const int share = (position + splits - 1) / splits;
  const int first = split * share;
  const int end = min(first + share, position);
  Eight<T> keys[kAtOnce], values[kAtOnce];
  const auto fetch = [&](int at) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t j = at + i * kGroups;
      const bool here = j < end && lane < lanes;
      keys[i] = here ? load<T>(cached_keys, j * lanes + lane) : Eight<T>{};
      values[i] = here ? load<T>(cached_values, j * lanes + lane) : Eight<T>{};
    }
  };
  fetch(first + group);
  const bool turns = problem.cosines != nullptr;
  Turns<T> by;
  if (turns && lane < lanes) {
    by.cosine = load<T>(problem.cosines, lane % (lanes / 2));
    by.sine = load<T>(problem.sines, lane % (lanes / 2));
  }
  const float slope = problem.slopes == nullptr ? 0.0F : problem.slopes[head] * kLog2E;
  wait_for_earlier_kernels();

  // All at once, also what only one group needs in the end.
  const T* const key = static_cast<const T*>(problem.keys) + sequence * problem.key_strides[0] +
                       kv_head * problem.key_strides[1];
  const T* const value = static_cast<const T*>(problem.values) +
                         sequence * problem.value_strides[0] + kv_head * problem.value_strides[1];
  const bool has_new = split == splits - 1 && group == 0;
  float query[kVector], own_key[kVector];
  Eight<T> own_value{};
  if (has_new) {
    turned(own_key, key, lane, lanes, turns, by);
    if (lane < lanes) own_value = load<T>(value, lane);
  }
  turned(query,
         static_cast<const T*>(problem.queries) + sequence * problem.query_strides[0] +
             head * problem.query_strides[1],
         lane, lanes, turns, by);
#pragma unroll
  for (float& value : query)
    value = multiply<T>(value, problem.query_scale) * (problem.score_scale * kLog2E);

  Sums sums;
  // Keys before the new one; shares are in powers of two.
  for (int at = first + group; __any_sync(0xffffffffU, at < end); at += kGroups * kAtOnce) {
    if (at != first + group) fetch(at);
    float scores[kAtOnce];
    float largest = sums.largest;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int j = at + i * kGroups;
      float score = 0;
#pragma unroll
      for (int k = 0; k < kVector; ++k) score += query[k] * widen(keys[i].value[k]);
      score = over_lanes<kLanes>(score) + slope * static_cast<float>(j);
      scores[i] = j < end ? score : -INFINITY;
      largest = fmaxf(largest, scores[i]);
    }
    const float before = weight_of(sums.largest, largest);
    sums.largest = largest;
    sums.shares *= before;
#pragma unroll
    for (float& value : sums.values) value *= before;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float weight = weight_of(scores[i], largest);
      sums.shares += weight;
#pragma unroll
      for (int k = 0; k < kVector; ++k) sums.values[k] += weight * widen(values[i].value[k]);
    }
  }

  // The new token's own, which the cache takes: by the first head of those that share it.
  if (has_new) {
    float score = 0;
#pragma unroll
    for (int k = 0; k < kVector; ++k) score += query[k] * own_key[k];
    constexpr unsigned kMask = kLanes == 32 ? 0xffffffffU : (1U << kLanes) - 1;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2)
      score += __shfl_xor_sync(kMask, score, offset);
    score += slope * static_cast<float>(position);
    const float largest = fmaxf(sums.largest, score);
    const float before = weight_of(sums.largest, largest);
    const float weight = weight_of(score, largest);
    sums.largest = largest;
    sums.shares = sums.shares * before + weight;
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      sums.values[k] = sums.values[k] * before + weight * widen(own_value.value[k]);
    if (lane < lanes && head % static_cast<int>(problem.heads / problem.kv_heads) == 0) {
      Eight<T> kept;
#pragma unroll
      for (int k = 0; k < kVector; ++k) kept.value[k] = rounded<T>(own_key[k]);
      store(cached_keys, static_cast<int64_t>(position) * lanes + lane, kept);
      store(cached_values, static_cast<int64_t>(position) * lanes + lane, own_value);
    }
  }

  // Groups of a warp, then warps.
#pragma unroll
  for (int offset = 16; offset >= kLanes; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffU, sums.largest, offset);
    const float largest = fmaxf(sums.largest, other);
    const float mine = weight_of(sums.largest, largest);
    sums.largest = largest;
    sums.shares *= mine;
    sums.shares += __shfl_xor_sync(0xffffffffU, sums.shares, offset);
#pragma unroll
    for (float& value : sums.values) {
      value *= mine;
      value += __shfl_xor_sync(0xffffffffU, value, offset);
    }
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 0) {
    warp_largest[warp] = sums.largest;
    warp_shares[warp] = sums.shares;
  }
  if (threadIdx.x % 32 < kLanes)
#pragma unroll
    for (int k = 0; k < kVector; ++k) warp_values[warp][lane * kVector + k] = sums.values[k];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  const bool mine = column < dim;
  float largest = -INFINITY;
#pragma unroll
  for (const float other : warp_largest) largest = fmaxf(largest, other);
  float shares = 0, sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float weight = weight_of(warp_largest[w], largest);
    shares += weight * warp_shares[w];
    if (mine) sum += weight * warp_values[w][column];
  }
  T* const out = static_cast<T*>(problem.out) + (sequence * problem.heads + head) * dim;
  if (splits == 1) {
    if (mine) out[column] = rounded<T>(sum / shares);
    return;
  }
  // [batch, heads]: how many are done; then [batch, heads, splits]: largest, shares, values.
  const int64_t place = sequence * problem.heads + head;
  auto* const done = static_cast<unsigned*>(problem.workspace) + place;
  auto* const parts = static_cast<float*>(problem.workspace) +
                      (problem.batch * problem.heads + 3) / 4 * 4 + place * splits * (dim + 2);
  float* const part = parts + split * (dim + 2);
  if (mine) part[2 + column] = sum;
  if (column == 0) {
    part[0] = largest;
    part[1] = shares;
  }
  __threadfence();
  __syncthreads();
  if (column == 0) last = atomicAdd(done, 1U) == static_cast<unsigned>(splits) - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (column == 0) *done = 0;
  largest = -INFINITY;
  for (int s = 0; s < splits; ++s) largest = fmaxf(largest, __ldcg(parts + s * (dim + 2)));
  shares = sum = 0;
  for (int s = 0; s < splits; ++s) {
    const float* const from = parts + s * (dim + 2);
    const float weight = weight_of(__ldcg(from), largest);
    shares += weight * __ldcg(from + 1);
    if (mine) sum += weight * __ldcg(from + 2 + column);
  }
  if (mine) out[column] = rounded<T>(sum / shares);
}

template <class T, int kLanes, int kThreads>
void launch(const DecodeAttention& problem, int64_t splits, cudaStream_t stream) {
  static_assert(kThreads >= kLanes * kVector, "a thread for each value of a vector");
  const dim3 blocks(static_cast<unsigned>(problem.heads * splits),
                    static_cast<unsigned>(problem.batch));
  launch_early(decode_attention_kernel<T, kLanes, kThreads>, blocks, kThreads, 0, /*early=*/true,
               stream, problem, static_cast<int>(splits));
}

template <class T>
void launch(const DecodeAttention& problem, cudaStream_t stream) {
  const int64_t workers = 2 * cuda_attribute(cudaDevAttrMultiProcessorCount);
  const int64_t heads = problem.batch * problem.heads;
  const int64_t splits = std::clamp<int64_t>(
      std::min(workers / heads, problem.reach / kLeastPositions), 1, DecodeAttention::kMaxSplits);
  const bool many = heads * splits > workers;
  if (problem.head_dim > 128) return launch<T, 32, kManyThreads>(problem, splits, stream);
  if (problem.head_dim > 64)
    return many ? launch<T, 16, kFewThreads>(problem, splits, stream)
                : launch<T, 16, kManyThreads>(problem, splits, stream);
  many ? launch<T, 8, kFewThreads>(problem, splits, stream)
       : launch<T, 8, kManyThreads>(problem, splits, stream);
}

}  // namespace

int64_t decode_attention_workspace(int64_t batch, int64_t heads, int64_t head_dim) {
  const int64_t places = batch * heads;
  return 4 * ((places + 3) / 4 * 4 + places * DecodeAttention::kMaxSplits * (head_dim + 2));
}

void decode_attention_cuda(const DecodeAttention& problem, void* stream) {
  if (problem.batch == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  if (problem.type == HalfType::kFloat16)
    launch<__half>(problem, on);
  else
    launch<__nv_bfloat16>(problem, on);
}

}  // namespace gptqb::kernels
