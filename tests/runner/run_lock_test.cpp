#include "runner/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

// Faults EH-07: a second run in the same folder is refused and names the first.
TEST(RunLockTest, ASecondRunIsRefusedWithTheFirstOnesId) {
  const test::TemporaryFolder folder;
  const RunLock lock(folder.path());
  const std::string id = std::to_string(::getpid());
  std::string wanted("[");
  wanted += folder.path().string();
  wanted += "] expected an output folder that no other run uses, got one that process ";
  wanted += id;
  wanted += " is writing to. Wait for it, or give another --output";
  EXPECT_EQ(test::message_of([&] { RunLock second(folder.path()); }), wanted);
}

TEST(RunLockTest, AnotherFolderIsFreeAndTheFolderIsMade) {
  const test::TemporaryFolder folder;
  const RunLock lock(folder.path() / "a");
  EXPECT_EQ(test::message_of([&] { RunLock second(folder.path() / "b"); }), "nothing was thrown");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() / "b"));
}

TEST(RunLockTest, TheLockGoesWithItsOwner) {
  const test::TemporaryFolder folder;
  { const RunLock lock(folder.path()); }
  EXPECT_EQ(test::message_of([&] { RunLock again(folder.path()); }), "nothing was thrown");
}

// The owner is killed without any chance to clean up: no stale lock stays.
TEST(RunLockTest, AKilledOwnerLeavesNoLock) {
  const test::TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(folder.path());
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(test::message_of([&] { RunLock second(folder.path()); }).find(std::to_string(child)),
            std::string::npos);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(test::message_of([&] { RunLock second(folder.path()); }), "nothing was thrown");
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace gptqb
