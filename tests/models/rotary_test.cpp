#include "models/rotary.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;
using Scaling = RotaryConfig::Scaling;
using nlohmann::json;

constexpr int64_t kHeadDim = 64;

RotaryConfig read(const json& config) {
  return read_rotary_config(ConfigReader("config.json", config), 2048);
}

// The formula of the LLaMA 3.1 release, in double.
double llama3_frequency(double plain, double factor, double original) {
  const double wavelength = 2 * std::numbers::pi / plain;
  if (wavelength < original / 4) return plain;
  if (wavelength > original) return plain / factor;
  const double smooth = (original / wavelength - 1) / (4 - 1);
  return (1 - smooth) * plain / factor + smooth * plain;
}

// ML-08: frequencies of none, linear and llama3 with factor 8 and 32; angles at positions 0, 1 and
// 100.
TEST(Rotary, FrequenciesFollowTheFormulas) {
  struct Case {
    json config;
    double theta;
    std::function<double(double)> expected;
  };
  const auto llama3 = [](double factor) {
    return json{{"rope_theta", 500000.0},
                {"rope_scaling",
                 {{"rope_type", "llama3"},
                  {"factor", factor},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 8192}}}};
  };
  const std::vector<Case> cases = {
      {json::object(), 10000.0, [](double plain) { return plain; }},
      {{{"rope_theta", 100000}}, 100000.0, [](double plain) { return plain; }},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}},
       10000.0,
       [](double plain) { return plain / 4; }},
      {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}}},
       10000.0,
       [](double plain) { return plain; }},
      {llama3(8), 500000.0, [](double plain) { return llama3_frequency(plain, 8, 8192); }},
      {llama3(32), 500000.0, [](double plain) { return llama3_frequency(plain, 32, 8192); }},
  };
  for (const Case& test : cases) {
    const RotaryConfig config = read(test.config);
    const at::Tensor frequencies = inverse_frequencies(config, kHeadDim);
    ASSERT_EQ(frequencies.numel(), kHeadDim / 2);
    RotaryTable table(config, kHeadDim, at::kFloat, at::kCPU);
    // Pairs (1, 0) turn into (cos, sin).
    at::Tensor unit = at::zeros({1, 101, 1, kHeadDim});
    unit.narrow(3, 0, kHeadDim / 2).fill_(1);
    const at::Tensor turned = table.rotate(unit);
    for (int64_t i = 0; i < kHeadDim / 2; ++i) {
      const double plain = std::pow(test.theta, -2.0 * static_cast<double>(i) / kHeadDim);
      const double expected = test.expected(plain);
      EXPECT_NEAR(frequencies[i].item<double>(), expected, 1e-6 * expected)
          << test.config << " pair " << i;
      for (const int64_t position : {0, 1, 100}) {
        const double angle = static_cast<double>(position) * expected;
        EXPECT_NEAR(turned[0][position][0][i].item<double>(), std::cos(angle), 2e-5);
        EXPECT_NEAR(turned[0][position][0][i + kHeadDim / 2].item<double>(), std::sin(angle), 2e-5);
      }
    }
  }
}

TEST(Rotary, YarnScalesCosinesAndKeepsFastPairs) {
  const json scaling = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  const RotaryConfig config = read({{"rope_scaling", scaling}});
  EXPECT_NEAR(config.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  const at::Tensor frequencies = inverse_frequencies(config, kHeadDim);
  EXPECT_FLOAT_EQ(frequencies[0].item<float>(), 1.0f);  // turns often: kept
  const double slowest = std::pow(10000.0, -62.0 / 64.0);
  EXPECT_NEAR(frequencies[31].item<double>(), slowest / 4,
              1e-6 * slowest);  // turns less than once: stretched
}

TEST(Rotary, GrowsWithLongerSequences) {
  RotaryTable table(RotaryConfig{}, 4, at::kFloat, at::kCPU);
  const at::Tensor x = at::arange(48, at::kFloat).reshape({1, 6, 2, 4});
  const at::Tensor first = table.rotate(x.narrow(1, 0, 2));
  EXPECT_TRUE(at::equal(table.rotate(x).narrow(1, 0, 2), first));
  EXPECT_TRUE(at::equal(table.rotate(x.narrow(1, 0, 2)), first));
}

TEST(Rotary, RefusesWhatItDoesNotCompute) {
  const auto error = [](const json& config) { return error_of([&] { read(config); }); };
  EXPECT_THAT(error({{"rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}}}),
              HasSubstr("[config.json, rope_scaling] rotary scaling: expected one of default, "
                        "linear, dynamic, llama3, yarn; got 'longrope'"));
  EXPECT_THAT(error({{"rope_scaling", {{"type", "linear"}}}}),
              HasSubstr("expected a key 'factor', got none"));
  EXPECT_THAT(error({{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}),
              HasSubstr("expected a number above 0 as 'factor'"));
  EXPECT_THAT(error({{"rope_scaling", {{"type", "llama3"}, {"factor", 8.0}}}}),
              HasSubstr("'low_freq_factor'"));
  EXPECT_THAT(
      error({{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}}),
      HasSubstr("expected 'partial_rotary_factor' absent or 1.0, got 0.5"));
  EXPECT_THAT(error({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}),
              HasSubstr("expected one set of rotary parameters for all layers"));
  EXPECT_THAT(error({{"rope_parameters", {{"rope_type", "default"}}},
                     {"rope_scaling", {{"type", "linear"}}}}),
              HasSubstr("expected either 'rope_parameters' or 'rope_scaling', got both"));
  EXPECT_THAT(error({{"rope_theta", "many"}}), HasSubstr("expected a number as 'rope_theta'"));
}

}  // namespace
}  // namespace gptqb::test
