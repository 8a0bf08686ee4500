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

// Whatever a method does, its result is valid, close to the weights at 8 bits, repeatable, and has
// a health row.
TEST(MethodRegistry, EveryMethodKeepsTheContract) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 50, 1));
  const auto weight = normal_matrix(9, 50, 2).to(at::kFloat) * 0.1;
  for (const auto& entry : quantizers().entries()) {
    const auto quantizer = entry.make();
    if (!quantizer) continue;
    for (const int64_t bits : {2, 3, 4, 8})
      for (const int64_t group_size : {-1, 16})
        for (const bool symmetric : {false, true}) {
          auto problem = layer_problem(weight, &stats);
          problem.quant = {.bits = bits, .group_size = group_size, .symmetric = symmetric};
          const auto result = quantizer->quantize(problem);
          result.replacement.validate(entry.name);
          // A method with a grid of its own takes no part in bits and groups.
          const bool on_grid = result.replacement.codes() != nullptr;
          if (on_grid) {
            EXPECT_EQ(result.quantized().bits, bits);
            EXPECT_EQ(result.quantized().group_size, group_size);
          }
          EXPECT_EQ(result.health.layer, problem.layer);
          EXPECT_EQ(result.health.method, entry.name);
          EXPECT_EQ(result.health.bits, on_grid ? bits : 8);
          EXPECT_EQ(result.health.status, "ok");
          EXPECT_EQ(result.health.tokens, stats.tokens());
          ASSERT_TRUE(result.health.loss && result.health.relative_error &&
                      result.health.relative_error_rtn);
          EXPECT_LT(*result.health.relative_error, bits == 8 ? 1e-3 : 1);
          const auto again = quantizer->quantize(problem).replacement.tensors();
          for (const auto& [name, tensor] : result.replacement.tensors())
            EXPECT_TRUE(at::equal(again.at(name), tensor)) << name;
        }
    if (!quantizer->needs_stats()) {
      auto problem = layer_problem(weight, nullptr);
      quantizer->quantize(problem).replacement.validate(entry.name);
    }
  }
}

}  // namespace
}  // namespace gptqb::test
