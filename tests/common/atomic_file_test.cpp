#include "common/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

using test::message_of;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A folder of its own for each test, removed at the end.
class AtomicFileTest : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_))
      result.push_back(entry.path().filename().string());
    return result;
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(AtomicFileTest, WritesExactBytesAndMakesFolders) {
  const std::string content("a\0b\r\n\xff", 6);
  const fs::path path = folder_ / "records" / "deep" / "x.json";
  write_file_atomically(path, content);
  EXPECT_EQ(read_file(path), content);
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
}

TEST_F(AtomicFileTest, LeavesNoTemporaryFile) {
  write_file_atomically(folder_ / "x", "1");
  write_file_atomically(folder_ / "x", "2");
  EXPECT_THAT(names(), testing::ElementsAre("x"));
}

TEST_F(AtomicFileTest, HonoursTheUmaskSoThatOthersCanReadResults) {
  const mode_t old = ::umask(022);
  write_file_atomically(folder_ / "x", "1");
  ::umask(old);
  const auto permissions = fs::status(folder_ / "x").permissions();
  EXPECT_NE(permissions & fs::perms::others_read, fs::perms::none);
}

// The disk is full after 4096 bytes: the system refuses the rest of the write with EFBIG, as ENOSPC
// would.
TEST_F(AtomicFileTest, FullDiskKeepsTheOldFileAndNothingHalfWritten) {
  const fs::path path = folder_ / "record.json";
  write_file_atomically(path, "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
    const std::string message =
        message_of([&] { write_file_atomically(path, std::string(100000, 'x')); });
    const std::string expected = "[" + path.string() +
                                 "] expected to write 100000 bytes, got 'File too large'. The file "
                                 "is as it was before; make room or permission and run the same "
                                 "command again";
    ::_exit(message == expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: another message, 3: no file size limit to be had";
  EXPECT_EQ(read_file(path), "old");
  EXPECT_THAT(names(), testing::ElementsAre("record.json"));
}

TEST_F(AtomicFileTest, RenameThatFailsNamesTheStep) {
  const fs::path path = folder_ / "taken";
  fs::create_directories(path / "child");
  EXPECT_THAT(message_of([&] { write_file_atomically(path, "x"); }),
              HasSubstr("[" + path.string() + "] expected to rename the temporary file over it"));
  EXPECT_THAT(names(), testing::ElementsAre("taken"));
}

TEST_F(AtomicFileTest, ParentThatIsAFileIsNamed) {
  write_file_atomically(folder_ / "file", "x");
  EXPECT_THAT(message_of([&] { write_file_atomically(folder_ / "file" / "x.json", "x"); }),
              HasSubstr("expected to make the folder " + (folder_ / "file").string() +
                        ", got 'Not a directory'"));
}

TEST_F(AtomicFileTest, ReadingWhatIsNotThereNamesPathAndReason) {
  const fs::path path = folder_ / "missing";
  EXPECT_EQ(message_of([&] { read_file(path); }),
            "[" + path.string() + "] expected a readable file, got 'No such file or directory'");
  EXPECT_EQ(message_of([&] { read_file(folder_); }),
            "[" + folder_.string() + "] expected a readable file, got 'Is a directory'");
}

}  // namespace
}  // namespace gptqb
