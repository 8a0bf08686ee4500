// Products of panels, blocked for the caches as Goto and van de Geijn describe ("Anatomy of
// High-Performance Matrix Multiplication", 2008): a tile of the result stays in registers, the
// right panel it reads in the first-level cache, a block of left panels in the second.
#include <algorithm>
#include <array>

#include "kernels/impl/cpu_level.h"
#include "kernels/panel_product.h"

namespace gptqb::kernels {
namespace {

// Elements of a right panel's block: 24 KiB of a first-level cache of 32 or more.
constexpr int64_t kRightBlock = 6144;
// Left columns of a block: at most 256 KiB, half of a small second-level cache.
constexpr int64_t kColumns = 128;

// What an instruction set computes at a time: a tile of kLeft x kVectors * kLanes elements, whose
// sums fill most of the registers, with enough of them to wait for no addition.
template <int kLanesOf, int kLeftOf>
struct Tile {
  static constexpr int kLanes = kLanesOf;
  static constexpr int kVectors = 3;
  static constexpr int kLeft = kLeftOf;
  static constexpr int kRight = kLanes * kVectors;
  static constexpr int64_t kDepth = kRightBlock / kRight;  // of a block
};
using BaselineTile = Tile<4, 4>;
using Avx2Tile = Tile<8, 4>;
using Avx512Tile = Tile<16, 8>;

// One tile: its first kVectors vectors, of which there are fewer at the right edge. The left panel
// that comes next is asked for meanwhile: a factor is read from memory once for each strip.
template <class T, int kVectors>
[[gnu::always_inline]] inline void add_tile(const float* __restrict left,
                                            const float* __restrict right, int64_t depth,
                                            const float* next, float* __restrict out,
                                            int64_t out_stride) {
  using Vector [[gnu::vector_size(T::kLanes * sizeof(float))]] = float;
  using Loose
      [[gnu::vector_size(T::kLanes * sizeof(float)), gnu::aligned(sizeof(float)), gnu::may_alias]] =
          float;
  for (int i = 0; i < T::kLeft; ++i)
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + i * out_stride + v * T::kLanes, 1);
  Vector sums[T::kLeft][kVectors] = {};
#pragma GCC unroll 1
  for (int64_t k = 0; k < depth; ++k) {
    __builtin_prefetch(next + k * T::kLeft, 0, 2);
    Vector values[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      values[v] = *reinterpret_cast<const Loose*>(right + v * T::kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < T::kLeft; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] += values[v] * left[i];
    }
    left += T::kLeft;
    right += T::kRight;
  }
#pragma GCC unroll 16
  for (int i = 0; i < T::kLeft; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      *reinterpret_cast<Loose*>(out + i * out_stride + v * T::kLanes) += sums[i][v];
  }
}

// The part of a tile that lies in rows [first, last) and the first `columns` columns of the result;
// `out` is where the whole tile would start.
template <class T, int kVectors>
[[gnu::always_inline]] inline void add_part(const float* left, const float* right, int64_t depth,
                                            const float* next, float* out, int64_t out_stride,
                                            int64_t first, int64_t last, int64_t columns) {
  if (first == 0 && last == T::kLeft && columns == kVectors * T::kLanes) {
    add_tile<T, kVectors>(left, right, depth, next, out, out_stride);
    return;
  }
  float whole[T::kLeft * T::kRight] = {};
  add_tile<T, kVectors>(left, right, depth, next, whole, T::kRight);
  for (int64_t i = first; i < last; ++i)
    for (int64_t j = 0; j < columns; ++j) out[i * out_stride + j] += whole[i * T::kRight + j];
}

// A block of left columns [begin, end), counted from the first panel's first, times one right panel
// of `columns` columns.
template <class T, int kVectors>
[[gnu::always_inline]] inline void add_panel(const PanelProduct& product, int64_t begin,
                                             int64_t end, int64_t from, int64_t depth,
                                             const float* right, float* out, int64_t columns) {
  for (int64_t panel = begin / T::kLeft; panel * T::kLeft < end; ++panel) {
    const int64_t start = panel * T::kLeft;
    const float* left = product.left + panel * product.left_stride + from * T::kLeft;
    add_part<T, kVectors>(left, right, depth, /*next=*/left + product.left_stride,
                          out + (start - product.left_skipped) * product.out_stride,
                          product.out_stride, std::max(begin - start, int64_t{0}),
                          std::min<int64_t>(end - start, T::kLeft), columns);
  }
}

template <class T>
[[gnu::always_inline]] inline void add_product(const PanelProduct& product) {
  const int64_t stop = product.left_skipped + product.left_columns;
  for (int64_t from = 0; from < product.depth; from += T::kDepth) {
    const int64_t depth = std::min(T::kDepth, product.depth - from);
    for (int64_t block = 0; block < stop; block += kColumns) {
      const int64_t begin = std::max(block, product.left_skipped);
      const int64_t end = std::min(block + kColumns, stop);
      for (int64_t j = 0; j < product.right_columns; j += T::kRight) {
        const float* right =
            product.right + j / T::kRight * product.right_stride + from * T::kRight;
        float* out = product.out + j;
        const int64_t columns = std::min<int64_t>(T::kRight, product.right_columns - j);
        if (columns > 2 * T::kLanes)
          add_panel<T, 3>(product, begin, end, from, depth, right, out, columns);
        else if (columns > T::kLanes)
          add_panel<T, 2>(product, begin, end, from, depth, right, out, columns);
        else
          add_panel<T, 1>(product, begin, end, from, depth, right, out, columns);
      }
    }
  }
}

void add_baseline(const PanelProduct& product) { add_product<BaselineTile>(product); }

#if GPTQB_X86_LEVELS
[[gnu::target("arch=x86-64-v3")]] void add_avx2(const PanelProduct& product) {
  add_product<Avx2Tile>(product);
}

[[gnu::target("arch=x86-64-v4")]] void add_avx512(const PanelProduct& product) {
  add_product<Avx512Tile>(product);
}
#endif

template <class T>
constexpr PanelKernel kernel_of(void (*add)(const PanelProduct&)) {
  return {.left_width = T::kLeft, .right_width = T::kRight, .add = add};
}

constexpr std::array kKernels = {
#if GPTQB_X86_LEVELS
    kernel_of<Avx512Tile>(add_avx512),
    kernel_of<Avx2Tile>(add_avx2),
#endif
    kernel_of<BaselineTile>(add_baseline),
};

}  // namespace

std::span<const PanelKernel> panel_kernels() {
  const auto above_baseline = static_cast<size_t>(cpu_level());  // levels rise in steps of one
  return std::span(kKernels).last(above_baseline + 1);
}

int64_t left_panel_stride(int64_t depth, int64_t width) {
  // What a block takes of a panel is 4 KiB (8 at the baseline), and a way of a second-level cache
  // holds 64 KiB: panels that lie a multiple of that apart would all fall into the same sets, those
  // with 4 KiB more fill one way after another.
  constexpr int64_t kWay = 65536 / sizeof(float);
  constexpr int64_t kStep = 4096 / sizeof(float);
  const int64_t needed = depth * width;
  if (needed <= kStep) return needed;
  return needed + (kStep + kWay - needed % kWay) % kWay;
}

void pack_panels(const float* source, int64_t source_stride, int64_t depth, int64_t columns,
                 int64_t width, float* packed, int64_t stride) {
  // Blocks in which both sides stay in the first-level cache.
  constexpr int64_t kDepthPacked = 64;
  const int64_t panels = (columns + width - 1) / width;
  const int64_t together = std::max<int64_t>(1, 64 / width);
  for (int64_t first = 0; first < panels; first += together) {
    const int64_t last = std::min(first + together, panels);
    for (int64_t top = 0; top < depth; top += kDepthPacked) {
      const int64_t bottom = std::min(top + kDepthPacked, depth);
      for (int64_t k = top; k < bottom; ++k) {
        for (int64_t panel = first; panel < last; ++panel) {
          const float* from = source + k * source_stride + panel * width;
          float* to = packed + panel * stride + k * width;
          const int64_t present = std::min(width, columns - panel * width);
          std::copy(from, from + present, to);
          std::fill(to + present, to + width, 0.0F);
        }
      }
    }
  }
}

}  // namespace gptqb::kernels
