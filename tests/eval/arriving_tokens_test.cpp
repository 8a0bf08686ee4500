#include "eval/arriving_tokens.h"

#include <gtest/gtest.h>

namespace gptqb {
namespace {

TEST(ArrivingTokens, ComeInTheOrderAndAsTheyWereWhenSent) {
  ArrivingTokens arriving;
  at::Tensor ids = at::zeros({3, 1}, at::kLong);
  for (int64_t step = 0; step < 4; ++step) {
    ids.fill_(step);
    arriving.send(ids);
    if (arriving.under_way() > 1) {
      EXPECT_TRUE(arriving.take().eq(step - 1).all().item<bool>());
    }
  }
  EXPECT_EQ(arriving.under_way(), 1u);
  ids.fill_(9);
  EXPECT_TRUE(arriving.take().eq(3).all().item<bool>());
  EXPECT_EQ(arriving.under_way(), 0u);
}

}  // namespace
}  // namespace gptqb
