// Products of panels against sums in double, for every instruction set that this processor has:
// remainders of tiles, vectors and blocks, strides, parts of a larger product, guards around the
// result.
#include "kernels/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace gptqb::kernels {
namespace {

struct Matrix {
  int64_t rows, columns, stride;
  std::vector<float> values;

  Matrix(int64_t row_count, int64_t column_count, int64_t padding, uint32_t seed)
      : rows(row_count), columns(column_count), stride(column_count + padding) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    values.resize(static_cast<size_t>(rows * stride + 1));
    for (auto& value : values) value = uniform(generator);
  }
  float& at(int64_t row, int64_t column) {
    return values[static_cast<size_t>(row * stride + column)];
  }
};

struct Packed {
  std::vector<float> values;
  int64_t width, stride;

  Packed(Matrix& source, int64_t panel_width, int64_t panel_stride)
      : width(panel_width), stride(panel_stride) {
    const int64_t panels = (source.columns + width - 1) / width;
    // NaN where nothing was packed: a product that reads there shows it.
    values.assign(static_cast<size_t>(panels * stride + 1), NAN);
    pack_panels(source.values.data(), source.stride, source.rows, source.columns, width,
                values.data(), stride);
  }
  // Element (k, first column of the panel that holds `column`).
  const float* at(int64_t k, int64_t column) const {
    return values.data() + column / width * stride + k * width;
  }
};

// Columns [first, first + left) of one matrix and `right` of another, over rows [from, from +
// depth).
struct Shape {
  int64_t depth, left, right;
  int64_t from = 0, first = 0;
};

void expect_product(const PanelKernel& kernel, const Shape& shape) {
  const int64_t rows = shape.from + shape.depth;
  Matrix left(rows, shape.first + shape.left, 3, 1);
  Matrix right(rows, shape.right, 5, 2);
  constexpr int64_t kPadding = 4;
  Matrix out(shape.left, shape.right, kPadding, 3);
  const Matrix before = out;
  const Packed left_panels(left, kernel.left_width, left_panel_stride(rows, kernel.left_width));
  const Packed right_panels(right, kernel.right_width, rows * kernel.right_width);
  PanelProduct product;
  product.depth = shape.depth;
  product.left_columns = shape.left;
  product.right_columns = shape.right;
  product.left_skipped = shape.first % kernel.left_width;
  product.left = left_panels.at(shape.from, shape.first);
  product.left_stride = left_panels.stride;
  product.right = right_panels.at(shape.from, 0);
  product.right_stride = right_panels.stride;
  product.out = out.values.data();
  product.out_stride = out.stride;
  kernel.add(product);

  for (int64_t i = 0; i < shape.left; ++i) {
    for (int64_t j = 0; j < out.stride; ++j) {
      double expected = before.values[static_cast<size_t>(i * out.stride + j)];
      double size = std::abs(expected);
      for (int64_t k = shape.from; k < rows && j < shape.right; ++k) {
        const double term = static_cast<double>(left.at(k, shape.first + i)) * right.at(k, j);
        expected += term;
        size += std::abs(term);
      }
      const double actual = out.at(i, j);
      // The error bound of a float32 sum of depth + 1 terms is far above what is seen; sums of
      // terms of both signs stay within a few roundings of their absolute sum.
      ASSERT_LE(std::abs(actual - expected), j < shape.right ? 4e-7 * size : 0.0)
          << "element " << i << ", " << j << " of " << shape.left << " x " << shape.right;
    }
  }
}

class PanelProductTest : public ::testing::TestWithParam<PanelKernel> {};

TEST_P(PanelProductTest, EqualsSumsInDoubleForAllRemainders) {
  for (const int64_t left : {1, 3, 4, 5, 8, 15, 16, 17})
    for (const int64_t right : {1, 7, 8, 9, 12, 16, 17, 24, 25, 31, 33, 47, 48, 49, 97})
      expect_product(GetParam(), {.depth = 5, .left = left, .right = right});
}

TEST_P(PanelProductTest, GoesOnWhereABlockEnds) {
  for (const int64_t depth : {1, 127, 128, 129, 255, 256, 257, 600})
    expect_product(GetParam(), {.depth = depth, .left = 9, .right = 50});
  for (const int64_t left : {127, 128, 129, 300})
    expect_product(GetParam(), {.depth = 3, .left = left, .right = 50});
}

TEST_P(PanelProductTest, TakesAnyPartOfALargerProduct) {
  for (int64_t first = 0; first < 9; ++first)
    for (const int64_t left : {1, 2, 7, 130})
      expect_product(GetParam(),
                     {.depth = 11, .left = left, .right = 26, .from = 6, .first = first});
}

TEST_P(PanelProductTest, LeavesTheResultWhereThereIsNothingToAdd) {
  expect_product(GetParam(), {.depth = 0, .left = 5, .right = 7});
  expect_product(GetParam(), {.depth = 5, .left = 0, .right = 7});
  expect_product(GetParam(), {.depth = 5, .left = 7, .right = 0});
}

// A row of the sweep must come out the same in whatever strip it lies.
TEST_P(PanelProductTest, SumsAColumnTheSameWhereverItLies) {
  const auto& kernel = GetParam();
  constexpr int64_t kDepth = 300, kLeft = 13, kRight = 61;
  Matrix left(kDepth, kLeft, 0, 4);
  Matrix right(kDepth, kRight, 0, 5);
  const Packed left_panels(left, kernel.left_width, left_panel_stride(kDepth, kernel.left_width));
  const auto product_of = [&](int64_t first) {
    Matrix part(kDepth, kRight - first, 0, 0);
    for (int64_t k = 0; k < kDepth; ++k)
      for (int64_t j = first; j < kRight; ++j) part.at(k, j - first) = right.at(k, j);
    const Packed panels(part, kernel.right_width, kDepth * kernel.right_width);
    std::vector<float> out(static_cast<size_t>(kLeft * part.columns), 0.5F);
    kernel.add({.depth = kDepth,
                .left_columns = kLeft,
                .right_columns = part.columns,
                .left = left_panels.values.data(),
                .left_stride = left_panels.stride,
                .right = panels.values.data(),
                .right_stride = panels.stride,
                .out = out.data(),
                .out_stride = part.columns});
    return out;
  };
  const auto whole = product_of(0);
  for (const int64_t first : {1, 8, 23, 60}) {
    const auto part = product_of(first);
    for (int64_t i = 0; i < kLeft; ++i)
      for (int64_t j = first; j < kRight; ++j)
        ASSERT_EQ(part[static_cast<size_t>(i * (kRight - first) + j - first)],
                  whole[static_cast<size_t>(i * kRight + j)])
            << "row " << i << ", column " << j << " of a part from " << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, PanelProductTest, ::testing::ValuesIn(panel_kernels()),
                         [](const auto& tested) {
                           return std::to_string(tested.param.left_width) + "x" +
                                  std::to_string(tested.param.right_width);
                         });

TEST(PackPanels, PutsZerosWhereColumnsAreMissing) {
  Matrix source(2, 5, 1, 6);
  const Packed packed(source, 4, 9);
  for (int64_t k = 0; k < 2; ++k) {
    EXPECT_EQ(packed.at(k, 4)[0], source.at(k, 4));
    for (int64_t j = 1; j < 4; ++j) EXPECT_EQ(packed.at(k, 4)[j], 0);
    for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(packed.at(k, 0)[j], source.at(k, j));
  }
  EXPECT_TRUE(std::isnan(packed.values[8])) << "between panels";
}

TEST(PackPanels, LeftPanelsAreSpreadOverTheSetsOfACache) {
  for (const int64_t depth : {257, 2048, 4096, 5120, 11008, 14336}) {
    const int64_t stride = left_panel_stride(depth, 4);
    EXPECT_GE(stride, depth * 4);
    EXPECT_EQ(stride * 4 % 65536, 4096) << depth;
  }
}

}  // namespace
}  // namespace gptqb::kernels
