#include "datasets/overlap.h"

#include <gtest/gtest.h>

namespace gptqb {
namespace {

TEST(Overlap, CountsSharedRuns) {
  const std::vector<int32_t> a = {1, 2, 3, 4, 5};
  // Runs of 3 in b: 234 345 459 591; the first two stand in a.
  EXPECT_DOUBLE_EQ(ngram_overlap(a, {2, 3, 4, 5, 9, 1}, 3), 0.5);
  EXPECT_DOUBLE_EQ(ngram_overlap(a, a, 3), 1.0);
  EXPECT_DOUBLE_EQ(ngram_overlap(a, {5, 4, 3, 2, 1}, 2), 0.0);
  EXPECT_DOUBLE_EQ(ngram_overlap(a, {9, 1, 9}, 1), 1.0 / 3.0);
}

TEST(Overlap, PlacesCountOnceEach) {
  EXPECT_DOUBLE_EQ(ngram_overlap({7, 7}, {7, 7, 7, 7, 1}, 2), 0.75);
}

TEST(Overlap, TooShortTextSharesNothing) {
  EXPECT_DOUBLE_EQ(ngram_overlap({1, 2, 3}, {1, 2}, 3), 0.0);
  EXPECT_DOUBLE_EQ(ngram_overlap({1, 2}, {1, 2, 3}, 3), 0.0);
  EXPECT_DOUBLE_EQ(ngram_overlap({}, {}), 0.0);
}

TEST(Overlap, DefaultIsRunsOfThirteen) {
  std::vector<int32_t> a(13);
  for (int32_t i = 0; i < 13; ++i) a[static_cast<size_t>(i)] = i;
  EXPECT_DOUBLE_EQ(ngram_overlap(a, a), 1.0);
  a.pop_back();
  EXPECT_DOUBLE_EQ(ngram_overlap(a, a), 0.0);
}

}  // namespace
}  // namespace gptqb
