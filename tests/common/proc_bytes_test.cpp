#include "common/proc_bytes.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

TEST(ProcBytes, AreKilobytesOfTheNamedLine) {
  const test::TemporaryFolder folder;
  const std::string file =
      folder.write("status", "VmHWMark:\t 9 kB\nVmHWM:\t    1234 kB\nOdd: none\n").string();
  EXPECT_EQ(proc_bytes(file.c_str(), "VmHWM"), 1234 * 1024);
  EXPECT_EQ(proc_bytes(file.c_str(), "VmRSS"), 0);
  EXPECT_EQ(proc_bytes(file.c_str(), "Odd"), 0);
  EXPECT_EQ(proc_bytes("/nowhere/status", "VmHWM"), 0);
  EXPECT_GT(proc_bytes("/proc/self/status", "VmHWM"), 0);
}

}  // namespace
}  // namespace gptqb
