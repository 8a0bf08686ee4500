// Where the time of a run is booked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "methods/quantize_model.h"
#include "tests/support/tiny_model.h"

namespace gptqb::test {
namespace {

// Of layers alone and of all together: the same seconds, and shapes to tell layers apart.
TEST(QuantizeModel, TimesOfLayersAddUpToThePhases) {
  TinyModel model(2);
  const auto report = quantize_model(model, random_ids(64, 64, 3), {}, options_for("gptq"));
  double hessian = 0, factor = 0, solve = 0;
  for (const LayerHealth& layer : report.layers) {
    hessian += layer.seconds_hessian;
    factor += layer.seconds_factor;
    solve += layer.seconds_solve + layer.seconds_errors;
    EXPECT_GT(layer.seconds_solve, 0);
    EXPECT_GT(layer.seconds_errors, 0);
    const bool down = layer.layer.ends_with("down");
    EXPECT_EQ(layer.out_features, down ? kHidden : kInner);
    EXPECT_EQ(layer.in_features, down ? kInner : kHidden);
    EXPECT_EQ(layer.hessian_shared_by, down ? 1 : 2);
  }
  EXPECT_NEAR(hessian, report.seconds.at("hessian"), 0.1 * hessian);
  EXPECT_NEAR(factor, report.seconds.at("factor"), 0.02 * factor);
  EXPECT_LE(solve, report.seconds.at("solve"));
  EXPECT_GT(solve, 0.5 * report.seconds.at("solve"));
}

// Phases are exclusive: they add up to the whole.
TEST(QuantizeModel, PhasesAddUp) {
  TinyModel model(3);
  const auto report = quantize_model(model, kCalibration, kHeldout, options_for("gptq"));
  double sum = 0;
  for (const auto& [phase, seconds] : report.seconds) {
    EXPECT_GE(seconds, 0) << phase;
    sum += seconds;
  }
  EXPECT_NEAR(sum / report.seconds_total, 1, 0.05);
  for (const char* phase : {"read", "forward", "hessian", "factor", "solve"})
    EXPECT_EQ(report.seconds.count(phase), 1U) << phase;
}

}  // namespace
}  // namespace gptqb::test
