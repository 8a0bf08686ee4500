#include "common/random.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/error.h"

namespace gptqb {
namespace {

std::vector<int64_t> draws(uint64_t seed, int64_t low, int64_t high, int count) {
  PythonRandom random(seed);
  std::vector<int64_t> result;
  for (int i = 0; i < count; ++i) result.push_back(random.randint(low, high));
  return result;
}

using Values = std::vector<int64_t>;

// shared/reference/protocol.md section 1.
TEST(PythonRandom, PublishedVectors) {
  EXPECT_EQ(draws(0, 0, 356316, 8),
            (Values{201979, 220500, 21225, 135746, 268055, 254766, 212302, 159023}));
  EXPECT_EQ(draws(2, 0, 356316, 8),
            (Values{29649, 48016, 44497, 189298, 88648, 351131, 161552, 131902}));
}

// CPython 3.11: random.seed(s); [random.randint(a, b) ...].
TEST(PythonRandom, OtherSeedsAndRanges) {
  EXPECT_EQ(draws(42, 0, 356316, 4), (Values{335243, 58369, 13112, 144194}));
  EXPECT_EQ(draws((uint64_t{1} << 40) + 7, 0, 356316, 4), (Values{321757, 335294, 299048, 249521}));
  EXPECT_EQ(draws(1, -5, 5, 12), (Values{-3, 4, -4, -1, -4, 2, 2, 2, 5, 1, -2, -4}));
}

TEST(PythonRandom, RangesWiderThanOneWord) {
  PythonRandom random(1);
  for (int i = 0; i < 12; ++i) random.randint(-5, 5);
  EXPECT_EQ(random.randint(0, int64_t{1} << 40), 62224870530);
  EXPECT_EQ(random.randint(0, int64_t{1} << 40), 950861988493);
  EXPECT_EQ(random.randint(0, int64_t{1} << 40), 7589884249);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(random.randint(3, 3), 3);
  EXPECT_EQ(
      random.randint(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()),
      8213794561484772545);
  EXPECT_EQ(random.randint(0, 0xFFFFFFFF), 3871601465);
  EXPECT_EQ(random.randint(0, int64_t{1} << 32), 131383004);
}

TEST(PythonRandom, EmptyRangeIsAnError) {
  PythonRandom random(0);
  try {
    random.randint(0, -1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[randint] expected a range with at least one integer, got [0, -1]");
  }
}

}  // namespace
}  // namespace gptqb
