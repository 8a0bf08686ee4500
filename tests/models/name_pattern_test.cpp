// Patterns of layer names: those that people write, and those that would hang a reader.
#include "models/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kName = "model.layers.17.mlp.up_proj";

// As Python's re.match: from the first letter on, to wherever the pattern ends.
TEST(NamePattern, FitsFromTheStartOfTheName) {
  for (const char* pattern :
       {".*up_proj", "model", R"(model\.layers\.17\.mlp\.up_proj$)", R"(.*\.(1[0-9])\.mlp)",
        R"((?:.*)(?P<part>up|gate)_proj)", R"(.*\.(?!16)\d+\..*)", ".*", ""})
    EXPECT_TRUE(NamePattern(pattern, "here").fits_start_of(kName)) << pattern;
  for (const char* pattern : {"up_proj", R"(.*\.(2[0-9])\.mlp)", "Model", "model$", ".*up_projs"})
    EXPECT_FALSE(NamePattern(pattern, "here").fits_start_of(kName)) << pattern;
}

TEST(NamePattern, WhatIsNoPatternIsRefused) {
  EXPECT_THAT(message_of([] { NamePattern("(up|down", "config.json, dynamic"); }),
              AllOf(HasSubstr("[config.json, dynamic] expected a regular expression"),
                    HasSubstr("'(up|down'"), HasSubstr("missing closing parenthesis")));
  EXPECT_THAT(message_of([] { NamePattern("((a{1,65535}){1,65535}){1,65535}", "here"); }),
              HasSubstr("too large"));
}

// Each doubles the work with each letter, and no letter that must be there says at once that none
// of it fits.
TEST(NamePattern, OneThatBacktracksWithoutEndIsRefused) {
  const std::string name = "model.layers.0." + std::string(40, 'a') + "!";
  for (const char* pattern : {R"(model\.layers\.0\.(a+)+$)", R"((([a-z0-9]+)*\.?)*[A-Z])",
                              R"((\w|[a-z0-9]|\.)+[?:])", R"((.*)*(.*)*(.*)*[?:])"}) {
    const NamePattern evil(pattern, "here");
    EXPECT_THAT(message_of([&] { evil.fits_start_of(name); }),
                AllOf(HasSubstr("[here] expected a regular expression that is decided in 100000 "
                                "steps"),
                      HasSubstr(pattern)));
  }
}

}  // namespace
}  // namespace gptqb::test
