#include "runner/admission.h"

#include <gtest/gtest.h>

namespace gptqb {
namespace {

// The sum of what is planned for cells at work, and of what waiting workers hold, stays below the
// limit.
TEST(Admission, CellsStartTogetherOnlyWhereTheirSumFits) {
  Admission admission(3, 100);
  admission.ask(0, 60, 5);
  admission.ask(1, 50, 5);
  admission.ask(2, 10, 5);
  ASSERT_EQ(admission.next()->who, 0u);
  EXPECT_FALSE(admission.next().has_value()) << "60 + 50 + 5 do not fit, and 2 asked after 1";
  admission.leave(0);
  ASSERT_EQ(admission.next()->who, 1u);
  ASSERT_EQ(admission.next()->who, 2u) << "50 + 10 + 5 fit";
  EXPECT_FALSE(admission.next().has_value());
}

TEST(Admission, WhatIsLeftOverIsSharedOut) {
  Admission admission(2, 100);
  admission.ask(0, 30, 10);
  EXPECT_EQ(admission.next()->bytes, 30 + (100 - 30) / 2);
  admission.ask(1, 40, 10);
  EXPECT_EQ(admission.next()->bytes, 40 + (100 - 30 - 40) / 2);
}

TEST(Admission, OneCellAloneAlwaysStarts) {
  Admission admission(2, 100);
  admission.ask(0, 99, 0);
  admission.ask(1, 150, 40);
  ASSERT_EQ(admission.next()->who, 0u) << "nobody is at work";
  EXPECT_FALSE(admission.next().has_value());
  admission.end(0);
  ASSERT_EQ(admission.next()->who, 1u) << "its own plan says whether it fits the machine";
}

TEST(Admission, WhoHasEndedNoLongerAsksOrCounts) {
  Admission admission(2, 100);
  admission.ask(0, 60, 50);
  admission.end(0);
  EXPECT_FALSE(admission.next().has_value());
  admission.ask(1, 100, 0);
  const auto grant = admission.next();
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->bytes, 100);
}

TEST(Admission, WithoutALimitAllStart) {
  Admission admission(2, std::nullopt);
  admission.ask(0, int64_t{1} << 60, 0);
  admission.ask(1, int64_t{1} << 60, 0);
  EXPECT_TRUE(admission.next().has_value());
  EXPECT_TRUE(admission.next().has_value());
}

}  // namespace
}  // namespace gptqb
