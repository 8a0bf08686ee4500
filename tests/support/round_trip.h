// Whether unpacking gives back what was packed, and writes nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/matmul_problem.h"
#include "tests/support/packed_matrix.h"

namespace gptqb::test {

inline void expect_round_trip(const MatmulData& data, const PackedMatrix& packed) {
  // Behind each part, so that what is written beyond it shows.
  constexpr size_t kGuard = 64;
  const auto guarded = [](auto values, auto mark) {
    values.resize(values.size() + kGuard, mark);
    return values;
  };
  const auto blank = [&](const auto& values, auto mark) {
    return std::remove_cvref_t<decltype(values)>(values.size() + kGuard, mark);
  };
  constexpr uint8_t kByte = 0xAB;
  std::vector<int32_t> groups;
  for (int64_t i = 0; i < data.of.k; ++i) groups.push_back(static_cast<int32_t>(data.group(i)));
  auto codes = blank(data.codes, kByte);
  auto scales = blank(data.scales, -7.F);
  auto zeros = blank(data.zeros, kByte);
  auto group_of_input = blank(groups, -7);
  packed.layout().unpack(packed.view(), {.codes = codes.data(),
                                         .scales = scales.data(),
                                         .zeros = zeros.data(),
                                         .group_of_input = group_of_input.data()});
  EXPECT_TRUE(codes == guarded(data.codes, kByte));
  EXPECT_TRUE(scales == guarded(data.scales, -7.F));
  EXPECT_TRUE(zeros == guarded(data.zeros, kByte));
  EXPECT_TRUE(group_of_input == guarded(groups, -7));
}

}  // namespace gptqb::test
