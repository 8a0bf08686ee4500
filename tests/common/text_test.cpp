#include "common/text.h"

#include <gtest/gtest.h>

#include "common/registry.h"

namespace gptqb {
namespace {

TEST(NearestName, SuggestsATypoAndNothingFarAway) {
  const std::vector<std::string> known = {"bits", "group_size", "symmetric"};
  EXPECT_EQ(nearest_name("group_sise", known), "group_size");
  EXPECT_EQ(nearest_name("bit", known), "bits");
  EXPECT_EQ(nearest_name("learning_rate", known), "");
}

TEST(UnknownName, ListsWhatIsKnown) {
  EXPECT_EQ(unknown_name("gtpq", {"gptq", "rtn"}),
            "expected one of gptq, rtn; got 'gtpq'. Did you mean 'gptq'?");
  EXPECT_EQ(unknown_name("obq", {"gptq", "rtn"}), "expected one of gptq, rtn; got 'obq'");
}

// Fault ML-14: "layers.1." must not hit layers.10.
TEST(GlobMatch, MatchesTheWholeName) {
  EXPECT_TRUE(glob_match("*.down_proj", "model.layers.7.mlp.down_proj"));
  EXPECT_TRUE(glob_match("model.layers.1.*", "model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(glob_match("model.layers.1.*", "model.layers.10.mlp.up_proj"));
  EXPECT_FALSE(glob_match("down_proj", "model.layers.7.mlp.down_proj"));
  EXPECT_TRUE(glob_match("model.layers.?.mlp.*", "model.layers.3.mlp.up_proj"));
  EXPECT_TRUE(glob_match("*a*b", "xaxxabb"));
  EXPECT_FALSE(glob_match("*a*b", "xaxxabc"));
  EXPECT_TRUE(glob_match("**", ""));
}

using Factory = int (*)();
int one() { return 1; }

TEST(Registry, FindsListsAndRefuses) {
  const Registry<Factory> registry("method",
                                   {{"gptq", "the paper", one, ""}, {"rtn", "", one, ""}});
  EXPECT_EQ(registry.at("gptq").make(), 1);
  EXPECT_TRUE(registry.has("rtn"));
  try {
    registry.at("rtm");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[method] expected one of gptq, rtn; got 'rtm'. Did you mean 'rtn'?");
  }
}

TEST(Registry, RefusesADuplicate) {
  using Entries = std::vector<RegistryEntry<Factory>>;
  EXPECT_THROW(Registry<Factory>("method", Entries{{"a", "", one, ""}, {"a", "", one, ""}}), Error);
}

}  // namespace
}  // namespace gptqb
