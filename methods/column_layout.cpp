#include "methods/column_layout.h"

#include <algorithm>

#include "methods/parallel_parts.h"

namespace gptqb {
namespace {

// Rows that are turned at a time: a cache line of f32 on the transposed side, while the other side
// stays in the second-level cache.
constexpr int64_t kRows = 16;

template <class T>
void permute_both(const at::Tensor& h, const at::Tensor& order, at::Tensor& out) {
  const int64_t n = h.size(0);
  const auto* place = order.const_data_ptr<int64_t>();
  parallel_parts(n, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = h.const_data_ptr<float>() + place[i] * n;
      T* to = out.mutable_data_ptr<T>() + i * n;
      for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(from[place[j]]);
    }
  });
}

// to[p * to_stride + r] = from[r * from_stride + place(p)].
template <class T, class Place>
void gather_transposed(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                       int64_t to_stride, const Place& place) {
  for (int64_t row = 0; row < rows; row += kRows) {
    const int64_t height = std::min(kRows, rows - row);
    for (int64_t p = 0; p < columns; ++p) {
      const T* source = from + row * from_stride + place(p);
      T* target = to + p * to_stride + row;
      for (int64_t r = 0; r < height; ++r) target[r] = source[r * from_stride];
    }
  }
}

// to[r * to_stride + place(p)] = from[p * from_stride + r]. Tiles are turned in a small buffer
// first: rows of `to` often lie a power of two apart, where a cache holds only a few of them.
template <class T, class Place>
void scatter_transposed(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                        int64_t to_stride, const Place& place) {
  constexpr int64_t kTile = 64;  // a cache line of bytes
  T tile[kTile][kTile];
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t height = std::min(kTile, rows - row);
    for (int64_t first = 0; first < columns; first += kTile) {
      const int64_t width = std::min(kTile, columns - first);
      for (int64_t p = 0; p < width; ++p) {
        const T* source = from + (first + p) * from_stride + row;
        for (int64_t r = 0; r < height; ++r) tile[r][p] = source[r];
      }
      for (int64_t r = 0; r < height; ++r) {
        T* target = to + (row + r) * to_stride;
        for (int64_t p = 0; p < width; ++p) target[place(first + p)] = tile[r][p];
      }
    }
  }
}

// Calls `work` with a function from position to column.
template <class Work>
void with_place(const at::Tensor& order, const Work& work) {
  if (!order.defined()) {
    work([](int64_t p) { return p; });
    return;
  }
  const auto* place = order.const_data_ptr<int64_t>();
  work([place](int64_t p) { return place[p]; });
}

template <class T>
at::Tensor take_columns(const at::Tensor& weights, const at::Tensor& order) {
  auto out = at::empty({weights.size(1), weights.size(0)}, weights.options());
  with_place(order, [&](const auto& place) {
    gather_transposed(weights.const_data_ptr<T>(), weights.stride(0), weights.size(0),
                      weights.size(1), out.mutable_data_ptr<T>(), out.stride(0), place);
  });
  return out;
}

}  // namespace

at::Tensor permute_both(const at::Tensor& h, const at::Tensor& order, at::ScalarType dtype) {
  const bool known = h.is_cpu() && h.is_contiguous() && h.scalar_type() == at::kFloat &&
                     (dtype == at::kFloat || dtype == at::kDouble);
  if (!known) return h.index_select(0, order).index_select(1, order).to(dtype);
  auto out = at::empty_like(h, h.options().dtype(dtype));
  if (dtype == at::kDouble)
    permute_both<double>(h, order, out);
  else
    permute_both<float>(h, order, out);
  return out;
}

at::Tensor take_columns(const at::Tensor& weights, const at::Tensor& order) {
  if (!weights.is_cpu())
    return (order.defined() ? weights.index_select(1, order) : weights).t().contiguous();
  const auto rows = weights.stride(1) == 1 ? weights : weights.contiguous();
  return weights.scalar_type() == at::kDouble ? take_columns<double>(rows, order)
                                              : take_columns<float>(rows, order);
}

void put_columns(const at::Tensor& codes, const at::Tensor& order, at::Tensor out) {
  if (!codes.is_cpu()) {
    if (order.defined())
      out.copy_(codes.t().index_select(1, at::argsort(order)));
    else
      out.copy_(codes.t());
    return;
  }
  with_place(order, [&](const auto& place) {
    scatter_transposed(codes.const_data_ptr<uint8_t>(), codes.stride(0), codes.size(1),
                       codes.size(0), out.mutable_data_ptr<uint8_t>(), out.stride(0), place);
  });
}

}  // namespace gptqb
