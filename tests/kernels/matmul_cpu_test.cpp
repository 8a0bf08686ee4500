// Every CPU kernel of kernels.def against the product in float64 from the canonical form.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "kernels/impl/matmul_rows.h"
#include "kernels/matmul.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/packed_matrix.h"

namespace gptqb::kernels {
namespace {

using test::ColumnOrder;
using test::MatmulCase;
using test::MatmulData;
using test::PackedMatrix;

constexpr MatmulDevice kCpu{};

// How each kernel rounds, from its header.
test::MatmulRounding rounding_of(const std::string& kernel, const PackedShape& shape) {
  if (kernel == "cpu_plain") return {.products = 0x1p-24};  // of the sum, made a float32
  if (kernel == "cpu_rows") {
    const int64_t chunks = shape.packed_columns / std::min<int64_t>(shape.scale_span, 128);
    return {.sums = 0x1p-24,  // the bias
            .products = static_cast<double>(chunks + 12) * 0x1p-24,
            .inputs = (1 + 0x1p-20) / 65278};
  }
  ADD_FAILURE() << "how does " << kernel << " round?";
  return {};
}

std::vector<std::string> cpu_kernels() {
  std::vector<std::string> names;
  for (const auto& entry : matmul_kernels().entries())
    if (entry.make != nullptr && entry.unavailable.empty() &&
        entry.make()->refusal({.n = 1, .k = 1}, kCpu).empty())
      names.push_back(entry.name);
  return names;
}

// The kernel's result, with guards around y; twice, with the same bits.
std::vector<uint16_t> result_of(const MatmulKernel& kernel, const MatmulData& data,
                                const PackedMatrix& weight) {
  constexpr size_t kGuard = 64;  // keeps y 16-byte aligned
  constexpr uint16_t kMark = 0x7a5a;
  const auto count = static_cast<size_t>(data.of.m * data.of.n);
  const int64_t workspace_bytes = kernel.workspace_bytes(weight.shape(), data.of.m, kCpu);
  std::vector<uint16_t> first;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<uint16_t> y(count + 2 * kGuard, kMark);
    std::vector<uint8_t> workspace(static_cast<size_t>(workspace_bytes) + kGuard, 0xAB);
    kernel.launch({.m = data.of.m,
                   .type = data.of.type,
                   .weight = weight.view(),
                   .x = data.x.data(),
                   .bias = data.bias.empty() ? nullptr : data.bias.data(),
                   .y = y.data() + kGuard,
                   .workspace = workspace.data()},
                  nullptr);
    for (size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(y[i], kMark);
      EXPECT_EQ(y[kGuard + count + i], kMark);
      EXPECT_EQ(workspace[static_cast<size_t>(workspace_bytes) + i], 0xAB);
    }
    y.erase(y.begin(), y.begin() + kGuard);
    y.resize(count);
    if (turn == 0) first = y;
    EXPECT_TRUE(first == y) << "two launches differ";
  }
  return first;
}

void expect_within_bound(const std::string& name, const MatmulCase& of) {
  SCOPED_TRACE(name + " " + of.text());
  const auto kernel = matmul_kernels().at(name).make();
  ASSERT_EQ(kernel->refusal(test::matmul_data(of).problem(), kCpu), "");
  const MatmulData data = test::matmul_data(of);
  const PackedMatrix weight(data.view(), kernel->layout());
  const auto y = result_of(*kernel, data, weight);
  EXPECT_LE(test::share_of_bound(data, test::exact_matmul(data, rounding_of(name, weight.shape())),
                                 y.data()),
            1);
}

class CpuMatmul : public ::testing::TestWithParam<std::string> {};

TEST_P(CpuMatmul, IsWithinItsBoundForEveryWidthGroupAndOrder) {
  int64_t turn = 0;
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group : {-1, 16, 32, 48, 64, 96, 128, 256})
      for (const bool symmetric : {false, true})
        for (const auto order :
             {ColumnOrder::kNatural, ColumnOrder::kActOrder, ColumnOrder::kUneven}) {
          ++turn;  // shares out the rest: each width and group meets each of them
          constexpr int64_t kTokens[] = {1, 2, 3, 7, 8};
          expect_within_bound(GetParam(),
                              {.m = kTokens[turn % 5],
                               .n = 37 + turn % 3,
                               .k = 333 + 2 * (turn % 7),
                               .bits = bits,
                               .group_size = group,
                               .symmetric = symmetric,
                               .order = order,
                               .bias = turn % 2 == 0,
                               .type = turn % 4 < 2 ? HalfType::kFloat16 : HalfType::kBFloat16});
        }
}

TEST_P(CpuMatmul, IsWithinItsBoundForEveryNumberOfTokens) {
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {5, 31}, {65, 769}})
        expect_within_bound(GetParam(),
                            {.m = m,
                             .n = n,
                             .k = k,
                             .bits = bits,
                             .group_size = 128,
                             .bias = m % 2 == 1,
                             .type = m % 3 == 0 ? HalfType::kBFloat16 : HalfType::kFloat16});
}

// Partial sums beyond float16's largest number (fault KN-10).
TEST_P(CpuMatmul, SumsAreWiderThanFloat16) {
  MatmulData data = test::matmul_data({.n = 1, .k = 4096, .bits = 8, .group_size = 128});
  for (size_t i = 0; i < 4096; ++i) {
    data.codes[i] = static_cast<uint8_t>(i < 2048 ? 128 + 64 : 128 - 63);
    data.x[i] = half_of_float(1);
  }
  std::fill(data.scales.begin(), data.scales.end(), 0.5F);
  std::fill(data.zeros.begin(), data.zeros.end(), 128);
  const auto kernel = matmul_kernels().at(GetParam()).make();
  const auto y = result_of(*kernel, data, PackedMatrix(data.view(), kernel->layout()));
  EXPECT_EQ(float_of_half(y[0]), 1024);
}

TEST_P(CpuMatmul, ThreadsChangeNothing) {
  const MatmulData data = test::matmul_data({.m = 5, .n = 200, .k = 300, .group_size = 32});
  const auto kernel = matmul_kernels().at(GetParam()).make();
  const PackedMatrix weight(data.view(), kernel->layout());
  const auto expected = result_of(*kernel, data, weight);
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  EXPECT_TRUE(result_of(*kernel, data, weight) == expected);
  omp_set_num_threads(before);
}

// A token's result does not depend on the tokens beside it (fault KN-20).
TEST_P(CpuMatmul, TokensDoNotTouchEachOther) {
  MatmulData data = test::matmul_data({.m = 8, .n = 40, .k = 500, .group_size = 64});
  const auto kernel = matmul_kernels().at(GetParam()).make();
  const PackedMatrix weight(data.view(), kernel->layout());
  const auto all = result_of(*kernel, data, weight);
  for (size_t token = 0; token < 8; ++token) {
    MatmulData one = data;
    one.of.m = 1;
    one.x.assign(data.x.begin() + static_cast<int64_t>(token) * 500,
                 data.x.begin() + static_cast<int64_t>(token + 1) * 500);
    const auto alone = result_of(*kernel, one, weight);
    EXPECT_TRUE(
        std::equal(alone.begin(), alone.end(), all.begin() + static_cast<int64_t>(token) * 40));
  }
}

// Infinities and NaN reach the outputs of their token, and no other token.
TEST_P(CpuMatmul, WhatIsNotFiniteShows) {
  for (const float value : {INFINITY, -INFINITY, NAN}) {
    MatmulData data = test::matmul_data({.m = 3, .n = 9, .k = 200, .group_size = 64});
    data.x[200 + 77] = half_of_float(value);
    const auto kernel = matmul_kernels().at(GetParam()).make();
    const auto y = result_of(*kernel, data, PackedMatrix(data.view(), kernel->layout()));
    for (size_t i = 0; i < y.size(); ++i) {
      const float got = float_of_half(y[i]);
      EXPECT_EQ(std::isfinite(got), i / 9 != 1) << i;
    }
  }
}

// The body that runs here and those for older processors.
TEST(CpuRows, EveryInstructionSetIsWithinTheBound) {
  for (const RowBody& body : row_bodies())
    for (const int64_t bits : {2, 3, 4, 8})
      for (const int64_t group : {16, 32, 64, 128, 384})
        for (const int64_t m : {1, 7}) {
          const MatmulCase of{.m = m,
                              .n = 9,
                              .k = 900,
                              .bits = bits,
                              .group_size = group,
                              .bias = true,
                              .type = m == 7 ? HalfType::kBFloat16 : HalfType::kFloat16};
          SCOPED_TRACE(std::string(body.name) + " " + of.text());
          const MatmulData data = test::matmul_data(of);
          const PackedMatrix weight(data.view(), "rows");
          std::vector<uint16_t> y(static_cast<size_t>(of.m * of.n));
          multiply_rows({.m = of.m,
                         .type = of.type,
                         .weight = weight.view(),
                         .x = data.x.data(),
                         .bias = data.bias.data(),
                         .y = y.data()},
                        body);
          const auto exact = test::exact_matmul(data, rounding_of("cpu_rows", weight.shape()));
          EXPECT_LE(test::share_of_bound(data, exact, y.data()), 1);
        }
}

// An outlier makes the steps of its own 128 columns coarse, and no others: the rest of a row of one
// group stays as exact as the header says.
TEST(CpuRows, OutliersStayInTheirChunk) {
  MatmulData data = test::matmul_data({.n = 6, .k = 1024, .bits = 4});
  for (auto& x : data.x) x = half_of_float(std::clamp(float_of_half(x), -1.F, 1.F));
  data.x[100] = half_of_float(60000);
  for (size_t row = 0; row < 6; ++row) data.codes[row * 1024 + 100] = data.zeros[row];
  const PackedMatrix weight(data.view(), "rows");
  std::vector<uint16_t> y(6);
  multiply_rows({.weight = weight.view(), .x = data.x.data(), .y = y.data()}, row_bodies().front());
  for (size_t row = 0; row < 6; ++row) {
    double sum = 0;
    double bound = 0;
    for (size_t i = 0; i < 1024; ++i) {
      const double weight_size =
          data.scales[row] * (static_cast<double>(data.codes[row * 1024 + i]) - data.zeros[row]);
      const double x = float_of_half(data.x[i]);
      sum += x * weight_size;
      // The step of the chunk's largest, and float32's rounding of each chunk.
      bound += std::abs(weight_size) * ((i < 128 ? 60000 : 1) / 65278. + std::abs(x) * 0x1p-19);
    }
    EXPECT_LE(std::abs(float_of_half(y[row]) - sum), bound + 0x1p-11 * std::abs(sum)) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuMatmul, ::testing::ValuesIn(cpu_kernels()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace gptqb::kernels
