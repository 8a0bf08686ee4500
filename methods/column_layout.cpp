#include "methods/column_layout.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/transpose.h"
#include "methods/device_stream.h"
#include "methods/huge_pages.h"
#include "methods/parallel_parts.h"

namespace gptqb {
namespace {

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

// Tiles are turned in a small buffer, so that both matrices are read and written a cache line at a
// time, whatever the order and however far apart their rows lie.

// Position in `order` of each column (undefined: natural).
std::vector<int64_t> places_of(const at::Tensor& order, int64_t columns) {
  std::vector<int64_t> places(static_cast<size_t>(columns));
  if (!order.defined()) {
    std::iota(places.begin(), places.end(), 0);
    return places;
  }
  const auto* column_at = order.const_data_ptr<int64_t>();
  for (int64_t p = 0; p < columns; ++p) places[static_cast<size_t>(column_at[p])] = p;
  return places;
}

// Calls work(row, height, column, width) for all tiles of a matrix.
template <class Work>
void for_tiles(int64_t rows, int64_t columns, int64_t side, const Work& work) {
  for (int64_t row = 0; row < rows; row += side)
    for (int64_t column = 0; column < columns; column += side)
      work(row, std::min(side, rows - row), column, std::min(side, columns - column));
}

template <class T>
void take_columns_of(const at::Tensor& weights, const at::Tensor& order, at::Tensor& out) {
  const auto places = places_of(order, weights.size(1));
  const T* from = weights.const_data_ptr<T>();
  T* to = out.mutable_data_ptr<T>();
  const int64_t from_stride = weights.stride(0);
  const int64_t to_stride = out.stride(0);
  constexpr int64_t kSide = 64 / sizeof(float);
  for_tiles(weights.size(0), weights.size(1), kSide,
            [&](int64_t row, int64_t height, int64_t column, int64_t width) {
              T tile[kSide][kSide];
              for (int64_t r = 0; r < height; ++r)
                std::copy_n(from + (row + r) * from_stride + column, width, tile[r]);
              for (int64_t c = 0; c < width; ++c) {
                T* target = to + places[static_cast<size_t>(column + c)] * to_stride + row;
                for (int64_t r = 0; r < height; ++r) target[r] = tile[r][c];
              }
            });
}

// `order` as the kernels take it.
at::Tensor order_on(at::Device device, const at::Tensor& order) {
  return order.defined() ? order.to(device).contiguous() : order;
}

// `place` must outlive it.
template <class T>
kernels::Transpose<T> transpose_of(int64_t rows, int64_t columns, const at::Tensor& in,
                                   const at::Tensor& place, const at::Tensor& out) {
  return {.rows = rows,
          .columns = columns,
          .in = in.const_data_ptr<T>(),
          .in_stride = in.stride(0),
          .place = place.defined() ? place.const_data_ptr<int64_t>() : nullptr,
          .out = out.mutable_data_ptr<T>(),
          .out_stride = out.stride(0)};
}

}  // namespace

at::Tensor permute_both(const at::Tensor& h, const at::Tensor& order, at::ScalarType dtype) {
  const bool known = h.is_cpu() && h.is_contiguous() && h.scalar_type() == at::kFloat &&
                     (dtype == at::kFloat || dtype == at::kDouble);
  if (!known) return h.index_select(0, order).index_select(1, order).to(dtype);
  auto out = empty_in_huge_pages(h.sizes(), h.options().dtype(dtype));
  if (dtype == at::kDouble)
    permute_both<double>(h, order, out);
  else
    permute_both<float>(h, order, out);
  return out;
}

void take_columns(const at::Tensor& weights, const at::Tensor& order, at::Tensor out) {
  if (weights.is_cuda() && weights.scalar_type() == at::kFloat && weights.stride(1) == 1 &&
      out.is_contiguous()) {
    const auto place = order_on(weights.device(), order);
    const DeviceStream stream(weights.device());
    kernels::take_columns_cuda(
        transpose_of<float>(weights.size(0), weights.size(1), weights, place, out),
        stream.handle());
    return;
  }
  if (!weights.is_cpu()) {
    out.copy_((order.defined() ? weights.index_select(1, order) : weights).t());
    return;
  }
  const auto rows = weights.stride(1) == 1 ? weights : weights.contiguous();
  if (weights.scalar_type() == at::kDouble)
    take_columns_of<double>(rows, order, out);
  else
    take_columns_of<float>(rows, order, out);
}

void put_columns(const at::Tensor& codes, const at::Tensor& order, at::Tensor out) {
  if (codes.is_cuda() && codes.is_contiguous() && out.stride(1) == 1) {
    const auto place = order_on(codes.device(), order);
    const DeviceStream stream(codes.device());
    kernels::put_columns_cuda(
        transpose_of<uint8_t>(codes.size(1), codes.size(0), codes, place, out), stream.handle());
    return;
  }
  if (!codes.is_cpu()) {
    if (order.defined())
      out.copy_(codes.t().index_select(1, at::argsort(order)));
    else
      out.copy_(codes.t());
    return;
  }
  const auto places = places_of(order, codes.size(0));
  const auto* from = codes.const_data_ptr<uint8_t>();
  auto* to = out.mutable_data_ptr<uint8_t>();
  const int64_t from_stride = codes.stride(0);
  const int64_t to_stride = out.stride(0);
  constexpr int64_t kSide = 64;
  for_tiles(codes.size(1), codes.size(0), kSide,
            [&](int64_t row, int64_t height, int64_t column, int64_t width) {
              uint8_t tile[kSide][kSide];
              for (int64_t c = 0; c < width; ++c)
                std::copy_n(from + places[static_cast<size_t>(column + c)] * from_stride + row,
                            height, tile[c]);
              for (int64_t r = 0; r < height; ++r) {
                uint8_t* target = to + (row + r) * to_stride + column;
                for (int64_t c = 0; c < width; ++c) target[c] = tile[c][r];
              }
            });
}

}  // namespace gptqb
