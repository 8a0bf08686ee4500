#include "common/progress.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace gptqb {
namespace {

TEST(ProgressTest, InterruptIsRaisedOnlyWhenAskedFor) {
  EXPECT_NO_THROW(throw_if_interrupted());
  interrupt_requested() = true;
  try {
    throw_if_interrupted();
    ADD_FAILURE() << "expected Interrupted";
  } catch (const Interrupted& interrupted) {
    EXPECT_STREQ(interrupted.what(), "interrupted; run the same command again to resume");
  }
  interrupt_requested() = false;
  EXPECT_NO_THROW(throw_if_interrupted());
}

TEST(ProgressTest, SilentProgressPrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  silent_progress().begin("blocks", 3);
  silent_progress().advance();
  silent_progress().note("a note");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace gptqb
