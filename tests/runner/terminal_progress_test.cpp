#include "runner/terminal_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace gptqb {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Screen {
  std::ostringstream out;
  double now = 100;

  TerminalProgress progress(bool terminal) {
    return TerminalProgress(
        out, terminal, [this] { return now; }, [] { return std::string("1.0 GiB"); });
  }
};

TEST(TerminalProgressTest, DrawsRateTimeLeftAndMemoryOnOneLine) {
  Screen screen;
  TerminalProgress progress = screen.progress(true);
  progress.begin("blocks", 30);
  EXPECT_THAT(screen.out.str(), EndsWith("\rblocks 0/30  0 %  1.0 GiB\x1b[K"));
  screen.now += 4;
  progress.advance(12);
  EXPECT_THAT(screen.out.str(),
              EndsWith("\rblocks 12/30  40 %  3.00/s  6.0 s left  1.0 GiB\x1b[K"));
  screen.now += 4;
  progress.advance(18);
  EXPECT_THAT(screen.out.str(), EndsWith("\rblocks 30/30  100 %  3.75/s  1.0 GiB\x1b[K"));
  EXPECT_THAT(screen.out.str(), testing::Not(HasSubstr("\n")));
}

TEST(TerminalProgressTest, SlowStepsAreTimedEach) {
  Screen screen;
  TerminalProgress progress = screen.progress(true);
  progress.begin("blocks", 10);
  screen.now += 90;
  progress.advance();
  EXPECT_THAT(screen.out.str(), HasSubstr("90.0 s each  13:30 left"));
}

TEST(TerminalProgressTest, RedrawsAtMostTenTimesASecond) {
  Screen screen;
  TerminalProgress progress = screen.progress(true);
  progress.begin("windows", 1000);
  const size_t before = screen.out.str().size();
  for (int i = 0; i < 500; ++i) progress.advance();
  EXPECT_EQ(screen.out.str().size(), before);
}

TEST(TerminalProgressTest, ANoteStandsAboveTheLine) {
  Screen screen;
  TerminalProgress progress = screen.progress(true);
  progress.begin("blocks", 2);
  progress.note("a layer fell back");
  EXPECT_THAT(screen.out.str(),
              EndsWith("\r\x1b[Ka layer fell back\n\rblocks 0/2  0 %  1.0 GiB\x1b[K"));
}

TEST(TerminalProgressTest, OnlyNotesWhereThereIsNoTerminal) {
  Screen screen;
  {
    TerminalProgress progress = screen.progress(false);
    progress.begin("blocks", 2);
    screen.now += 1;
    progress.advance(2);
    progress.note("done");
  }
  EXPECT_EQ(screen.out.str(), "done\n");
}

TEST(TerminalProgressTest, LeavesAnEmptyLineBehind) {
  Screen screen;
  { screen.progress(true).begin("blocks", 2); }
  EXPECT_THAT(screen.out.str(), EndsWith("\r\x1b[K"));
}

}  // namespace
}  // namespace gptqb
