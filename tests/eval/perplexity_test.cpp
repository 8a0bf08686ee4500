#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"
#include "eval/evaluator.h"
#include "eval/window_loss.h"
#include "tests/support/fake_lm.h"

namespace gptqb {
namespace {

using test::FakeLm;
using test::windows_of;

Metric perplexity(CausalLm& model, const TokenWindows& windows, EvaluationOptions options = {}) {
  const auto metrics =
      evaluators().at("perplexity").make()->evaluate(model, {{"test", &windows}}, options);
  EXPECT_EQ(metrics.size(), 1u);
  return metrics.at(0);
}

at::Tensor random_table(int64_t vocab) {
  at::manual_seed(0);
  return at::randn({vocab, vocab});
}

// Fault PP-04: logits must be held against the token that follows.
TEST(Perplexity, IsOneForAModelThatKnowsTheNextToken) {
  const at::Tensor next = at::one_hot(at::remainder(at::arange(8) + 1, 8), 8) * 1000;
  FakeLm model(next.to(at::kFloat), at::kFloat, 16);
  const Metric metric = perplexity(model, windows_of({0, 1, 2, 3, 4, 5, 6, 7}, 4));
  EXPECT_EQ(metric.name, "perplexity.test");
  EXPECT_EQ(metric.count, 2);
  EXPECT_DOUBLE_EQ(metric.value, 1.0);
}

TEST(Perplexity, OfUniformLogitsIsTheVocabulary) {
  FakeLm model(at::zeros({5, 5}), at::kFloat, 16);
  EXPECT_NEAR(perplexity(model, windows_of({0, 1, 2, 3, 4, 0}, 3)).value, 5.0, 1e-6);
}

// By hand: exp of the mean over windows of the mean over seqlen - 1 tokens, and its standard error
// by the delta method.
TEST(Perplexity, MatchesAHandComputedMeanAndStandardError) {
  const at::Tensor table = random_table(6);
  FakeLm model(table, at::kFloat, 16);
  const std::vector<int32_t> ids = {0, 3, 5, 1, 1, 4, 2, 0, 5};
  const at::Tensor log_probability = at::log_softmax(table.to(at::kDouble), -1);
  std::vector<double> losses;
  for (int window = 0; window < 3; ++window) {
    double sum = 0;
    for (int i = 0; i < 2; ++i)
      sum -= log_probability[ids[3 * window + i]][ids[3 * window + i + 1]].item<double>();
    losses.push_back(sum / 2);
  }
  const double mean = (losses[0] + losses[1] + losses[2]) / 3;
  double variance = 0;
  for (double loss : losses) variance += (loss - mean) * (loss - mean) / 2;
  const Metric metric = perplexity(model, windows_of(ids, 3));
  ASSERT_EQ(metric.samples.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(metric.samples[i], losses[i], 1e-6);
  EXPECT_NEAR(metric.value, std::exp(mean), 1e-5);
  EXPECT_NEAR(metric.standard_error.value(), std::exp(mean) * std::sqrt(variance / 3), 1e-5);
}

// Fault PP-11: logits of several hundred lose all resolution if the loss is taken in 16 bits.
TEST(Perplexity, LossIsTakenInFloat32WhateverTheModelsDtype) {
  const at::Tensor table = at::tensor({600.f, 598.f, 0.f}).repeat({3, 1});
  for (at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    FakeLm model(table, dtype, 16);
    const auto losses = window_losses(model, windows_of({1, 1, 1, 1}, 4), {});
    EXPECT_NEAR(losses.at(0), 2.126928, 1e-3) << toString(dtype);
  }
}

TEST(Perplexity, CanRoundLossesToTheModelsDtypeAsThePublishedCodeDoes) {
  FakeLm model(random_table(6), at::kHalf, 16);
  const auto windows = windows_of({0, 3, 5, 1, 1, 4, 2, 0}, 8);
  const double exact = window_losses(model, windows, {}).at(0);
  const double rounded = window_losses(model, windows, {.loss_in_model_dtype = true}).at(0);
  EXPECT_EQ(rounded,
            static_cast<double>(static_cast<float>(at::Half(static_cast<float>(rounded)))));
  EXPECT_NEAR(rounded, exact, 2e-3);
}

// Fault PP-12: a mean loss whose exp overflows is infinite, with the reason and the losses kept.
TEST(Perplexity, OverflowIsInfiniteWithItsReason) {
  const at::Tensor table = at::tensor({800.f, 0.f}).repeat({2, 1});
  FakeLm model(table, at::kFloat, 16);
  const Metric metric = perplexity(model, windows_of({1, 1, 1, 1}, 4));
  EXPECT_TRUE(std::isinf(metric.value));
  EXPECT_THAT(metric.reason, testing::HasSubstr("800"));
  EXPECT_NEAR(metric.samples.at(0), 800, 1e-3);
  EXPECT_FALSE(metric.standard_error.has_value());
}

TEST(Perplexity, NotANumberIsNamed) {
  FakeLm model(at::full({2, 2}, std::nanf("")), at::kFloat, 16);
  const Metric metric = perplexity(model, windows_of({1, 1, 1, 1}, 4));
  EXPECT_TRUE(std::isnan(metric.value));
  EXPECT_EQ(metric.reason, "the model's logits are not finite");
}

// Fault PP-17.
TEST(Perplexity, DoesNotDependOnTheBatch) {
  FakeLm model(random_table(6), at::kFloat, 16);
  const auto windows = windows_of({0, 3, 5, 1, 1, 4, 2, 0, 5, 3, 2, 1}, 3);
  const auto one = window_losses(model, windows, {.batch = 1});
  for (int64_t batch : {2, 3, 4, 100})
    EXPECT_EQ(window_losses(model, windows, {.batch = batch}), one);
}

TEST(Perplexity, RunsEachBlockOnceOverAllWindows) {
  FakeLm model(random_table(6), at::kFloat, 16);
  window_losses(model, windows_of({0, 3, 5, 1, 1, 4, 2, 0}, 2), {.batch = 1});
  EXPECT_EQ(model.loads, 1);
}

void expect_error(CausalLm& model, const TokenWindows& windows, const std::string& message) {
  try {
    window_losses(model, windows, {});
    FAIL() << "expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message);
  }
}

// Fault TD-13, and tokenizers of another model.
TEST(Perplexity, RefusesWindowsThatDoNotFitTheModel) {
  FakeLm model(random_table(6), at::kFloat, 3);
  expect_error(model, windows_of({0, 1, 2, 3}, 4),
               "[evaluation on test] expected seqlen of at most 3, the positions the model has, "
               "got 4. Set evaluate's seqlen");
  expect_error(model, windows_of({0, 1, 6}, 3),
               "[evaluation on test] expected token ids from 0 to 5, the model's vocabulary, got "
               "6. The tokenizer is another model's");
}

TEST(Evaluators, EveryEntryHasItsFile) {
  for (const auto& entry : evaluators().entries()) {
    EXPECT_TRUE(
        std::filesystem::exists(std::string(GPTQB_SOURCE_DIR "/eval/impl/") + entry.name + ".cpp"));
    EXPECT_NE(entry.make(), nullptr);
    EXPECT_FALSE(entry.summary.empty());
  }
  int files = 0;
  for ([[maybe_unused]] const auto& file :
       std::filesystem::directory_iterator(GPTQB_SOURCE_DIR "/eval/impl"))
    ++files;
  EXPECT_EQ(files, static_cast<int>(evaluators().entries().size()));
}

}  // namespace
}  // namespace gptqb
