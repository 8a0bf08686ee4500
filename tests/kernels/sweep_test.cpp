// The CPU sweep against the sentence it implements, in double loops; every remainder of its row
// tiles, guards around its outputs.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

template <class T>
struct Problem {
  int64_t rows;
  int64_t columns;
  int64_t stride;  // of the factor: it is part of a larger matrix
  std::vector<T> weights, carried, factor, diagonal, scales, zeros, errors;
  std::vector<int32_t> groups;
  std::vector<uint8_t> codes;
  std::vector<double> losses;

  static constexpr int64_t kGroups = 3;
  static constexpr int64_t kGuard = 16;

  bool ternary;

  Problem(int64_t row_count, int64_t column_count, bool three_levels = false)
      : rows(row_count), columns(column_count), stride(column_count + 5), ternary(three_levels) {
    std::mt19937 generator(static_cast<uint32_t>(100 * rows + columns));
    const auto fill = [&](std::vector<T>& values, int64_t count, double low, double high) {
      values.resize(static_cast<size_t>(count));
      for (auto& value : values)
        value =
            static_cast<T>(low + (high - low) * static_cast<double>(generator()) / 4294967296.0);
    };
    fill(weights, rows * columns, -1, 1);
    fill(carried, rows * columns, -0.1, 0.1);
    fill(factor, columns * stride, -0.3, 0.3);
    fill(diagonal, columns, 0.5, 2);
    fill(scales, kGroups * rows, 0.05, 0.2);
    fill(zeros, kGroups * rows, 0, 15);
    for (auto& zero : zeros) zero = std::floor(zero);
    if (ternary) {
      fill(scales, kGroups * rows, 0.2, 1.2);
      fill(zeros, kGroups * rows, -1.2, -0.2);
    }
    for (int64_t j = 0; j < columns; ++j)
      groups.push_back(static_cast<int32_t>(generator() % kGroups));
    codes.assign(static_cast<size_t>(rows * columns + 2 * kGuard), 0xAB);
    errors.assign(static_cast<size_t>(rows * columns + 2 * kGuard), T(-77));
    losses.assign(static_cast<size_t>(rows + 2 * kGuard), 0.25);
  }

  SweepChunk<T> chunk() {
    SweepChunk<T> result;
    result.rows = rows;
    result.columns = columns;
    result.weights = weights.data();
    result.carried = carried.data();
    result.factor = factor.data();
    result.factor_stride = stride;
    result.diagonal = diagonal.data();
    result.scales = scales.data();
    result.zeros = zeros.data();
    result.group_of_column = groups.data();
    result.max_code = 15;
    result.ternary = ternary;
    result.codes = codes.data() + kGuard;
    result.errors = errors.data() + kGuard;
    result.losses = losses.data() + kGuard;
    return result;
  }

  // What [row] should be, from the codes that were chosen before each column; `tolerance` in steps.
  void expect_right(int64_t row, double tolerance) const {
    double loss = 0.25;
    std::vector<double> past;
    for (int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<size_t>(j * rows + row);
      const auto grid = static_cast<size_t>(groups[static_cast<size_t>(j)] * rows + row);
      const double scale = scales[grid];
      const double zero = zeros[grid];
      double value = static_cast<double>(weights[at]) + static_cast<double>(carried[at]);
      for (int64_t i = 0; i < j; ++i)
        value += past[static_cast<size_t>(i)] * factor[static_cast<size_t>(i * stride + j)];
      const double code = codes[at + kGuard];
      double quantized = scale * (code - zero);
      if (ternary) {  // scale: the upper level; zero: the lower one
        ASSERT_TRUE(code == 0 || code == 1 || code == 2);
        quantized = code == 2 ? scale : code == 0 ? zero : 0;
        if (value > scale / 2 + tolerance) {
          ASSERT_EQ(code, 2);
        } else if (value < zero / 2 - tolerance) {
          ASSERT_EQ(code, 0);
        } else if (value < scale / 2 - tolerance && value > zero / 2 + tolerance) {
          ASSERT_EQ(code, 1);
        }
      } else {
        const double position = std::clamp(value / scale + zero, 0.0, 15.0);
        ASSERT_LE(std::abs(position - code), 0.5 + tolerance) << "row " << row << " column " << j;
      }
      const double error = errors[at + kGuard];
      ASSERT_NEAR(error, weights[at] - quantized, tolerance);
      past.push_back(error);
      loss += 0.5 * std::pow((value - quantized) * diagonal[static_cast<size_t>(j)], 2);
    }
    ASSERT_NEAR(losses[static_cast<size_t>(row + kGuard)], loss, tolerance * (1 + loss) * 10);
  }

  void expect_guards() const {
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(codes[i], 0xAB);
      ASSERT_EQ(codes[codes.size() - 1 - i], 0xAB);
      ASSERT_EQ(errors[i], T(-77));
      ASSERT_EQ(errors[errors.size() - 1 - i], T(-77));
      ASSERT_EQ(losses[i], 0.25);
      ASSERT_EQ(losses[losses.size() - 1 - i], 0.25);
    }
  }
};

template <class T>
void sweep_every_remainder(double tolerance, bool ternary = false) {
  for (const int64_t rows : {1, 7, 8, 9, 63, 64, 65, 71, 72, 73, 200})
    for (const int64_t columns : {1, 2, 31, 32}) {
      Problem<T> problem(rows, columns, ternary);
      sweep_cpu(problem.chunk(), 0, rows);
      problem.expect_guards();
      for (int64_t row = 0; row < rows; ++row) problem.expect_right(row, tolerance);
    }
}

TEST(SweepCpu, Float64IsRight) { sweep_every_remainder<double>(1e-12); }
TEST(SweepCpu, Float32IsRight) { sweep_every_remainder<float>(2e-5); }
TEST(SweepCpu, TernaryIsRight) {
  sweep_every_remainder<double>(1e-12, true);
  sweep_every_remainder<float>(2e-5, true);
}

// Fault QN-04: offsets into a factor of more than 2^31 elements. Pages that are not touched cost
// nothing.
TEST(SweepCpu, OffsetsGoBeyond32Bits) {
  Problem<float> small(8, 32);
  Problem<float> large(8, 32);
  const int64_t stride = int64_t{1} << 27;
  const size_t bytes = static_cast<size_t>(31 * stride + 32) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* factor = static_cast<float*>(memory);
  for (int64_t i = 0; i < 32; ++i)
    for (int64_t j = 0; j < 32; ++j)
      factor[i * stride + j] = small.factor[static_cast<size_t>(i * small.stride + j)];
  auto chunk = large.chunk();
  chunk.factor = factor;
  chunk.factor_stride = stride;
  sweep_cpu(small.chunk(), 0, 8);
  sweep_cpu(chunk, 0, 8);
  munmap(memory, bytes);
  EXPECT_EQ(small.codes, large.codes);
  EXPECT_EQ(small.errors, large.errors);
}

TEST(SweepCpu, WritesOnlyItsRows) {
  Problem<float> problem(200, 8);
  sweep_cpu(problem.chunk(), 64, 128);
  problem.expect_guards();
  for (int64_t row = 0; row < 200; ++row) {
    const bool inside = row >= 64 && row < 128;
    const auto at = static_cast<size_t>(row + Problem<float>::kGuard);
    EXPECT_EQ(problem.codes[at] == 0xAB, !inside) << row;
    EXPECT_EQ(problem.losses[at] == 0.25, !inside) << row;
  }
}

TEST(SweepCpu, PartsGiveTheBytesOfTheWhole) {
  Problem<float> whole(200, 32);
  Problem<float> parts(200, 32);
  sweep_cpu(whole.chunk(), 0, 200);
  sweep_cpu(parts.chunk(), 64, 200);
  sweep_cpu(parts.chunk(), 0, 64);
  EXPECT_EQ(whole.codes, parts.codes);
  EXPECT_EQ(whole.errors, parts.errors);
  EXPECT_EQ(whole.losses, parts.losses);
}

}  // namespace
}  // namespace gptqb::kernels
