#include "datasets/random_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gptqb {
namespace {

// Python: random.seed(3); [random.randint(0, 9) for _ in range(8)]
TEST(RandomIds, AreThoseOfPythonsRandom) {
  EXPECT_EQ(random_ids(8, 10, 3).tokens, (std::vector<int32_t>{3, 9, 8, 2, 5, 9, 7, 9}));
}

TEST(RandomIds, CoverTheVocabularyEvenly) {
  const Corpus corpus = random_ids(50000, 50, 1);
  std::vector<int64_t> counts(50, 0);
  for (const int32_t id : corpus.tokens) ++counts.at(static_cast<size_t>(id));
  // 1000 each, with a standard deviation of 31.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 850);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1150);
}

}  // namespace
}  // namespace gptqb
