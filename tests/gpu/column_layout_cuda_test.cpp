// Transposed copies in sweep order against tensor operations, whatever the shape.
#include <gtest/gtest.h>

#include "methods/column_layout.h"

namespace gptqb {
namespace {

TEST(ColumnLayoutCuda, TakesAndPutsColumnsAsTensorOperationsDo) {
  at::manual_seed(7);
  for (const int64_t rows : {1, 63, 64, 65, 300})
    for (const int64_t columns : {1, 32, 64, 100, 129})
      for (const bool ordered : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        const auto order = ordered ? at::randperm(columns, at::kLong).cuda() : at::Tensor();
        const auto natural = at::arange(columns, at::TensorOptions(at::kLong).device(at::kCUDA));
        const auto places = ordered ? order : natural;
        // Rows of a larger matrix.
        const auto weights = at::randn({rows, columns + 3}).cuda().narrow(1, 1, columns);
        auto taken = at::empty({columns, rows}, weights.options());
        take_columns(weights, order, taken);
        EXPECT_TRUE(at::equal(taken, weights.index_select(1, places).t()));

        const auto codes = at::randint(0, 256, {columns, rows}, at::kLong).to(at::kByte).cuda();
        auto put = at::empty({rows, columns}, codes.options());
        put_columns(codes, order, put);
        EXPECT_TRUE(at::equal(put.index_select(1, places), codes.t()));
      }
}

}  // namespace
}  // namespace gptqb
