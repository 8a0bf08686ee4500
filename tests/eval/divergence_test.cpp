#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/error.h"
#include "common/statistics.h"
#include "eval/evaluator.h"
#include "methods/grid.h"
#include "tests/support/fake_lm.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

using test::FakeLm;
using test::message_of;
using test::windows_of;

constexpr int64_t kBytes = int64_t{1} << 20;

std::map<std::string, Metric> divergence(CausalLm& model, DenseReference& dense,
                                         const TokenWindows& windows,
                                         EvaluationOptions options = {}) {
  options.dense = &dense;
  std::map<std::string, Metric> result;
  for (Metric& metric :
       evaluators().at("divergence").make()->evaluate(model, {{"test", &windows}}, options))
    result[metric.name.substr(std::string("divergence.test.").size())] = std::move(metric);
  EXPECT_EQ(result.size(), 5u);
  return result;
}

// Opens FakeLm of `table` and counts how often its block was loaded.
struct FakeDense {
  FakeDense(at::Tensor table, int64_t kept_bytes)
      : reference(
            [this, table] {
              auto model = std::make_unique<FakeLm>(table, at::kFloat, 16);
              ++opened;
              last = model.get();
              return model;
            },
            kept_bytes) {}
  int opened = 0;
  FakeLm* last = nullptr;
  DenseReference reference;
};

at::Tensor random_table(uint64_t seed) {
  at::manual_seed(seed);
  return 2 * at::randn({6, 6});
}

// One predicted token at a time, in float64, from the definition.
struct Oracle {
  std::vector<double> kl, agreement, change;

  void add(const at::Tensor& dense_logits, const at::Tensor& logits, int64_t right) {
    const auto probabilities = [](const at::Tensor& row) {
      const at::Tensor values = row.to(at::kDouble).contiguous();
      std::vector<double> result(values.const_data_ptr<double>(),
                                 values.const_data_ptr<double>() + values.numel());
      double largest = result[0], sum = 0;
      for (double value : result) largest = std::max(largest, value);
      for (double& value : result) sum += value = std::exp(value - largest);
      for (double& value : result) value /= sum;
      return result;
    };
    const auto p = probabilities(dense_logits);
    const auto q = probabilities(logits);
    double sum = 0;
    size_t first_p = 0, first_q = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      sum += p[i] * std::log(p[i] / q[i]);
      if (p[i] > p[first_p]) first_p = i;
      if (q[i] > q[first_q]) first_q = i;
    }
    kl.push_back(sum);
    agreement.push_back(first_p == first_q ? 1 : 0);
    change.push_back(q[static_cast<size_t>(right)] - p[static_cast<size_t>(right)]);
  }
};

double mean_of(const std::vector<double>& values, size_t begin, size_t count) {
  double sum = 0;
  for (size_t i = begin; i < begin + count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

void expect_equal(std::map<std::string, Metric> metrics, const Oracle& oracle, int64_t windows,
                  double tolerance) {
  const size_t tokens = oracle.kl.size();
  const size_t each = tokens / static_cast<size_t>(windows);
  const auto expect_mean = [&](const std::string& name, const std::vector<double>& values) {
    const Metric& metric = metrics.at(name);
    EXPECT_NEAR(metric.value, mean_of(values, 0, tokens), tolerance) << name;
    EXPECT_EQ(metric.count, windows) << name;
    ASSERT_EQ(metric.samples.size(), static_cast<size_t>(windows)) << name;
    double squares = 0;
    for (size_t i = 0; i < metric.samples.size(); ++i) {
      EXPECT_NEAR(metric.samples[i], mean_of(values, i * each, each), tolerance) << name;
      squares += std::pow(mean_of(values, i * each, each) - mean_of(values, 0, tokens), 2);
    }
    const auto n = static_cast<double>(windows);
    EXPECT_NEAR(metric.standard_error.value(), std::sqrt(squares / (n - 1) / n), tolerance) << name;
  };
  expect_mean("mean_kl", oracle.kl);
  expect_mean("top1_agreement", oracle.agreement);
  expect_mean("right_token_probability_change", oracle.change);
  std::vector<double> sorted = oracle.kl;
  std::sort(sorted.begin(), sorted.end());
  const double place = 0.99 * static_cast<double>(tokens - 1);
  const auto below = static_cast<size_t>(place);
  const double share = place - static_cast<double>(below);
  EXPECT_NEAR(metrics.at("p99_kl").value,
              sorted[below] + share * (sorted[std::min(below + 1, tokens - 1)] - sorted[below]),
              tolerance);
  EXPECT_NEAR(metrics.at("max_kl").value, sorted.back(), tolerance);
  EXPECT_EQ(metrics.at("max_kl").count, static_cast<int64_t>(tokens));
}

TEST(Divergence, MatchesAFloat64LoopOverTheVocabulary) {
  const at::Tensor table = random_table(1);
  const at::Tensor changed = table + 0.5 * random_table(2);
  FakeLm model(changed, at::kFloat, 16);
  FakeDense dense(table, kBytes);
  const std::vector<int32_t> ids = {0, 3, 5, 1, 1, 4, 2, 0, 5};
  Oracle oracle;
  for (int window = 0; window < 3; ++window)
    for (int i = 3 * window; i < 3 * window + 2; ++i)
      oracle.add(table[ids[i]], changed[ids[i]], ids[i + 1]);
  expect_equal(divergence(model, dense.reference, windows_of(ids, 3)), oracle, 3, 1e-6);
}

// A real decoder with a block quantized to 3 bits, windows of 300 tokens: more positions than have
// logits at a time.
TEST(Divergence, MatchesAFloat64LoopOnAModel) {
  const std::string folder = GPTQB_SOURCE_DIR "/assets/quickstart-model";
  const ModelOptions options{.dtype = "float32"};
  const auto open = [&] { return open_model(folder, options); };
  const auto model = open();
  const int64_t seqlen = 300;
  model->load_block(0);
  for (const Stage& stage : model->stages())
    for (const std::string& linear : stage.linears)
      model->replace(linear, round_to_nearest(model->weight(linear),
                                              {.quant = {.bits = 3, .group_size = -1}}, linear));
  model->release_block();

  at::manual_seed(3);
  const at::Tensor drawn = at::randint(model->vocab_size(), {2 * seqlen}, at::kInt);
  const TokenWindows windows = windows_of(
      {drawn.const_data_ptr<int32_t>(), drawn.const_data_ptr<int32_t>() + 2 * seqlen}, seqlen);
  const auto logits_of = [&](CausalLm& lm) {
    at::Tensor hidden = lm.embed(drawn.to(at::kLong).reshape({2, seqlen}));
    for (int64_t block = 0; block < lm.block_count(); ++block) {
      lm.load_block(block);
      hidden = lm.run_block(hidden);
    }
    return lm.logits(hidden);
  };
  const auto dense = open();
  const at::Tensor dense_logits = logits_of(*dense);
  const at::Tensor logits = logits_of(*model);
  Oracle oracle;
  for (int64_t window = 0; window < 2; ++window)
    for (int64_t i = 0; i + 1 < seqlen; ++i)
      oracle.add(dense_logits[window][i], logits[window][i],
                 drawn[window * seqlen + i + 1].item<int64_t>());
  DenseReference reference(open, kBytes);
  const auto metrics = divergence(*model, reference, windows);
  EXPECT_GT(metrics.at("mean_kl").value, 1e-4);
  expect_equal(metrics, oracle, 2, 2e-6);
}

TEST(Divergence, OfTheDenseModelItselfIsExactlyZero) {
  const std::string folder = GPTQB_SOURCE_DIR "/tests/models/golden/llama_gqa_tied";
  for (const char* dtype : {"float32", "bfloat16"}) {
    const auto open = [&] { return open_model(folder, {.dtype = dtype}); };
    const auto model = open();
    std::vector<int32_t> ids;
    for (int i = 0; i < 96; ++i) ids.push_back(i * 37 % static_cast<int>(model->vocab_size()));
    DenseReference reference(open, kBytes);
    const auto metrics = divergence(*model, reference, windows_of(ids, 32));
    for (const char* name : {"mean_kl", "p99_kl", "max_kl", "right_token_probability_change"})
      EXPECT_EQ(metrics.at(name).value, 0) << name << " " << dtype;
    EXPECT_EQ(metrics.at("top1_agreement").value, 1);
    EXPECT_EQ(metrics.at("mean_kl").standard_error, 0);
  }
}

// The dense pass costs as much as the other one: cells and evaluators with the same windows share
// it.
TEST(Divergence, TheDensePassIsSharedWithinTheBudget) {
  const at::Tensor table = random_table(1);
  const auto windows = windows_of({0, 3, 5, 1, 1, 4, 2, 0, 5}, 3);
  const auto others = windows_of({0, 3, 5, 1, 1, 4, 2, 0, 4}, 3);
  FakeLm model(table + 1, at::kFloat, 16);
  FakeDense shared(table, kBytes);
  const auto first = divergence(model, shared.reference, windows);
  EXPECT_EQ(shared.last->loads, 1);
  const auto second = divergence(model, shared.reference, windows);
  EXPECT_EQ(shared.last->loads, 1);
  EXPECT_EQ(first.at("mean_kl").samples, second.at("mean_kl").samples);
  divergence(model, shared.reference, others);
  EXPECT_EQ(shared.last->loads, 2);
  shared.reference.close();
  divergence(model, shared.reference, windows);
  EXPECT_EQ(shared.opened, 2);
  EXPECT_EQ(shared.last->loads, 0);

  FakeDense none(table, 100);
  EXPECT_EQ(divergence(model, none.reference, windows).at("mean_kl").samples,
            divergence(model, none.reference, windows).at("mean_kl").samples);
  EXPECT_EQ(none.last->loads, 2);
}

TEST(Divergence, SharesTheModelsPassWithPerplexity) {
  const at::Tensor table = random_table(1);
  const auto windows = windows_of({0, 3, 5, 1, 1, 4, 2, 0, 5}, 3);
  FakeLm model(table + 1, at::kFloat, 16);
  FakeDense dense(table, kBytes);
  HiddenStateCache states(kBytes);
  const EvaluationOptions options{.states = &states};
  const auto alone =
      evaluators().at("perplexity").make()->evaluate(model, {{"test", &windows}}, {});
  const auto shared =
      evaluators().at("perplexity").make()->evaluate(model, {{"test", &windows}}, options);
  model.loads = 0;
  divergence(model, dense.reference, windows, options);
  EXPECT_EQ(model.loads, 0);
  EXPECT_EQ(alone.at(0).samples, shared.at(0).samples);
}

TEST(Divergence, NotANumberIsNamed) {
  const auto windows = windows_of({1, 1, 1, 1}, 4);
  FakeLm model(at::full({2, 2}, std::nanf("")), at::kFloat, 16);
  FakeDense dense(at::zeros({2, 2}), kBytes);
  const auto metrics = divergence(model, dense.reference, windows);
  for (const char* name : {"mean_kl", "p99_kl", "max_kl"}) {
    EXPECT_TRUE(std::isnan(metrics.at(name).value)) << name;
    EXPECT_EQ(metrics.at(name).reason, "the logits of one of the models are not finite") << name;
  }
}

TEST(Divergence, NeedsADenseModel) {
  FakeLm model(at::zeros({2, 2}), at::kFloat, 16);
  const auto windows = windows_of({1, 1, 1, 1}, 4);
  EXPECT_EQ(message_of([&] {
              evaluators().at("divergence").make()->evaluate(model, {{"test", &windows}}, {});
            }),
            "[divergence] expected a dense model to compare with, got none");
}

}  // namespace
}  // namespace gptqb
