// The CUDA sweep held against the CPU's, which tests/kernels holds against the paper's algorithm.
// The CPU takes 32 columns at a time; what they send to later columns is added between.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kGroups = 3;

template <class T>
at::Tensor uniform(at::IntArrayRef shape, double low, double high) {
  return (at::rand(shape, at::kDouble) * (high - low) + low).to(c10::CppTypeToScalarType<T>::value);
}

// One chunk with everything a caller hands in, on one device.
template <class T>
struct Problem {
  at::Tensor weights, carried, factor, diagonal, scales, zeros, groups, codes, errors, losses;

  bool ternary = false;

  Problem(int64_t rows, int64_t columns, bool three_levels = false)
      : weights(uniform<T>({columns, rows}, -1, 1)),
        carried(uniform<T>({columns, rows}, -0.1, 0.1)),
        factor(uniform<T>({columns, columns}, -0.3, 0.3) / std::sqrt(columns / 16. + 1)),
        diagonal(uniform<T>({columns}, 0.5, 2)),
        scales(uniform<T>({kGroups, rows}, 0.05, 0.2)),
        zeros(at::randint(0, 15, {kGroups, rows}, weights.options())),
        groups(at::randint(0, kGroups, {columns}, at::kInt)),
        ternary(three_levels) {
    if (ternary) {
      scales = uniform<T>({kGroups, rows}, 0.2, 1.2);
      zeros = uniform<T>({kGroups, rows}, -1.2, -0.2);
    }
    clear_outputs();
  }

  // Outputs are poisoned, so that one that is not written shows.
  void clear_outputs() {
    codes = at::full(weights.sizes(), 255, weights.options().dtype(at::kByte));
    errors = at::full_like(weights, std::nan(""));
    losses = at::zeros({weights.size(1)}, weights.options().dtype(at::kDouble));
  }

  Problem on_gpu() const {
    Problem copy = *this;
    for (at::Tensor* tensor : {&copy.weights, &copy.carried, &copy.factor, &copy.diagonal,
                               &copy.scales, &copy.zeros, &copy.groups})
      *tensor = tensor->cuda();
    copy.clear_outputs();
    return copy;
  }

  SweepChunk<T> chunk() {
    SweepChunk<T> chunk;
    chunk.rows = weights.size(1);
    chunk.columns = weights.size(0);
    chunk.weights = weights.const_data_ptr<T>();
    chunk.carried = carried.const_data_ptr<T>();
    chunk.factor = factor.const_data_ptr<T>();
    chunk.factor_stride = factor.size(1);
    chunk.diagonal = diagonal.const_data_ptr<T>();
    chunk.scales = scales.const_data_ptr<T>();
    chunk.zeros = zeros.const_data_ptr<T>();
    chunk.group_of_column = groups.const_data_ptr<int32_t>();
    chunk.max_code = 15;
    chunk.ternary = ternary;
    chunk.codes = codes.mutable_data_ptr<uint8_t>();
    chunk.errors = errors.mutable_data_ptr<T>();
    chunk.losses = losses.mutable_data_ptr<double>();
    return chunk;
  }
};

template <class T>
void sweep_on_cpu(Problem<T>& problem) {
  const int64_t rows = problem.weights.size(1);
  const int64_t columns = problem.weights.size(0);
  for (int64_t begin = 0; begin < columns; begin += SweepChunk<T>::kMaxColumns) {
    const int64_t count = std::min<int64_t>(SweepChunk<T>::kMaxColumns, columns - begin);
    SweepChunk<T> chunk = problem.chunk();
    chunk.columns = count;
    chunk.weights += begin * rows;
    chunk.carried += begin * rows;
    chunk.factor += begin * chunk.factor_stride + begin;
    chunk.diagonal += begin;
    chunk.group_of_column += begin;
    chunk.codes += begin * rows;
    chunk.errors += begin * rows;
    sweep_cpu(chunk, 0, rows);
    const int64_t end = begin + count;
    problem.carried.slice(0, end).add_(at::mm(problem.factor.slice(0, begin, end).slice(1, end).t(),
                                              problem.errors.slice(0, begin, end)));
  }
}

template <class T>
void expect_same_as_cpu(double tolerance, double equal_share, bool ternary = false) {
  at::manual_seed(7);
  for (int64_t rows : {1, 5, 31, 32, 33, 127, 128, 129, 1000})
    for (int64_t columns : {1, 2, 15, 31, 32, 33, 64, 100, 127, 128}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
      Problem<T> host(rows, columns, ternary);
      Problem<T> device = host.on_gpu();
      sweep_on_cpu(host);
      sweep_cuda(device.chunk(), nullptr);
      const at::Tensor codes = device.codes.cpu();
      const double share = codes.eq(host.codes).to(at::kDouble).mean().template item<double>();
      EXPECT_GE(share, equal_share);
      // A code that flips on a rounding boundary changes the rest of its row, so only rows that
      // agree are compared.
      const at::Tensor same = codes.eq(host.codes).all(0).nonzero().squeeze(1);
      EXPECT_TRUE(at::allclose(device.errors.cpu().index_select(1, same),
                               host.errors.index_select(1, same), tolerance, tolerance));
      EXPECT_TRUE(at::allclose(device.losses.cpu().index_select(0, same),
                               host.losses.index_select(0, same), tolerance, tolerance));
    }
}

TEST(SweepCuda, EqualsTheCpuInFloat64) { expect_same_as_cpu<double>(1e-12, 1.0); }
TEST(SweepCuda, EqualsTheCpuInFloat32) { expect_same_as_cpu<float>(1e-4, 0.99); }

TEST(SweepCuda, TernaryEqualsTheCpu) {
  expect_same_as_cpu<double>(1e-12, 1.0, true);
  expect_same_as_cpu<float>(1e-4, 0.99, true);
}

TEST(SweepCuda, GivesTheSameBytesTwice) {
  at::manual_seed(8);
  Problem<float> problem = Problem<float>(300, 128).on_gpu();
  sweep_cuda(problem.chunk(), nullptr);
  const at::Tensor codes = problem.codes.clone(), errors = problem.errors.clone();
  problem.clear_outputs();
  sweep_cuda(problem.chunk(), nullptr);
  EXPECT_TRUE(at::equal(codes, problem.codes));
  EXPECT_TRUE(at::equal(errors, problem.errors));
}

}  // namespace
}  // namespace gptqb::kernels
