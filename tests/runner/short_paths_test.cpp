#include "runner/short_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gptqb {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ShortPaths, AreAsLongAsItTakesToTellThemApart) {
  EXPECT_THAT(short_paths({"${MODELS:-checkpoints}/opt-125m", "/data/opt-350m/", "m"}),
              ElementsAre(Pair("${MODELS:-checkpoints}/opt-125m", "opt-125m"),
                          Pair("/data/opt-350m/", "opt-350m"), Pair("m", "m")));
  EXPECT_THAT(short_paths({"/x/a/m", "/x/b/m", "/x/b/n"}),
              ElementsAre(Pair("/x/a/m", "a/m"), Pair("/x/b/m", "b/m"), Pair("/x/b/n", "n")));
  EXPECT_THAT(short_paths({"", "/x/y/m", "/z/y/m", "y/m"}),
              ElementsAre(Pair("", ""), Pair("/x/y/m", "x/y/m"), Pair("/z/y/m", "z/y/m"),
                          Pair("y/m", "y/m")));
  EXPECT_THAT(short_paths({"/m", "/m/"}), ElementsAre(Pair("/m", "/m"), Pair("/m/", "/m/")));
  EXPECT_THAT(short_paths({}), ElementsAre());
}

}  // namespace
}  // namespace gptqb
