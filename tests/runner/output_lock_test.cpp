#include "runner/output_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

TEST(OutputLockTest, ANameIsHeldOnceAndOthersStayFree) {
  const test::TemporaryFolder folder;
  const OutputLock one(folder.path() / "made"), other(folder.path() / "made");
  std::optional<OutputLock::Held> held = one.try_name("cell");
  ASSERT_TRUE(held.has_value());
  EXPECT_FALSE(other.try_name("cell").has_value());
  EXPECT_TRUE(other.try_name("another cell").has_value());
  EXPECT_TRUE(OutputLock(folder.path() / "elsewhere").try_name("cell").has_value());
  held.reset();
  EXPECT_TRUE(other.try_name("cell").has_value());
  EXPECT_TRUE(one.try_name("cell").has_value()) << "the other one's was not let go";
}

TEST(OutputLockTest, AMovedLockIsLetGoOnce) {
  const test::TemporaryFolder folder;
  const OutputLock one(folder.path()), other(folder.path());
  std::optional<OutputLock::Held> held = one.try_name("cell");
  {
    const OutputLock::Held moved = std::move(*held);
    held.reset();
    EXPECT_FALSE(other.try_name("cell").has_value());
  }
  EXPECT_TRUE(other.try_name("cell").has_value());
}

// The owner is killed without any chance to clean up: no stale lock stays (faults EH-07).
TEST(OutputLockTest, AKilledOwnerLeavesNoLock) {
  const test::TemporaryFolder folder;
  const OutputLock mine(folder.path());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const OutputLock lock(folder.path());
    const auto held = lock.try_name("cell");
    if (!held || ::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(mine.try_name("cell").has_value());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(mine.try_name("cell").has_value());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace gptqb
