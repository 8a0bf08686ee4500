// The contract every entry of methods.def keeps; a newcomer is tested as soon as it is listed.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "common/error.h"
#include "tests/support/layers.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

TEST(MethodRegistry, FilesAndLinesAgree) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(GPTQB_SOURCE_DIR) / "methods" / "impl"))
    files.insert(entry.path().stem().string());
  const auto names = quantizers().names();
  EXPECT_EQ(files, std::set<std::string>(names.begin(), names.end()));
}

TEST(MethodRegistry, EveryEntryHasASummary) {
  for (const auto& entry : quantizers().entries()) {
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_TRUE(entry.unavailable.empty()) << entry.name;
  }
}

TEST(MethodRegistry, UnknownNamesGetASuggestion) {
  try {
    quantizers().at("gptp");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gptq"), std::string::npos) << error.what();
  }
}

TEST(MethodRegistry, NoneIsTheDenseModel) { EXPECT_EQ(quantizers().at("none").make(), nullptr); }

}  // namespace
}  // namespace gptqb::test
