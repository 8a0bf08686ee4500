#include "datasets/utf8.h"

#include <gtest/gtest.h>

namespace gptqb {
namespace {

TEST(Utf8, FindsTheFirstIllFormedByte) {
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\xFFz"), 2u);
  EXPECT_EQ(find_invalid_utf8("ab\xC3"), 2u);            // cut short
  EXPECT_EQ(find_invalid_utf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(find_invalid_utf8("x\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
}

// Python 3.11: bytes.decode("utf-8", "replace").
TEST(Utf8, ReplacesEachMaximalIllFormedStretchOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("a\xFF\xFE"
                                 "b"),
            "a" + r + r + "b");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x99z"), r + "z");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(replace_invalid_utf8("caf\xC3\xA9"), "caf\xC3\xA9");
}

TEST(Utf8, WhiteSpaceIsUnicodes) {
  EXPECT_EQ(skip_white_space("\xE3\x80\x80\n\xC2\x85x ", 0), 6u);  // U+3000, newline, U+0085
  EXPECT_EQ(skip_white_space("\xE2\x80\x8B", 0), 0u);              // U+200B is none
  EXPECT_EQ(trim_white_space("x\xE2\x80\xA8 \xC2\xA0", 7), 1u);
  EXPECT_EQ(trim_white_space(" \n", 2), 0u);
}

}  // namespace
}  // namespace gptqb
