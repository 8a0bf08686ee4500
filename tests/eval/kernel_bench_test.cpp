// The benchmark of kernels: nothing wrong is timed, and what is timed is told in full.
#include "eval/kernel_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common/error.h"
#include "common/progress.h"
#include "eval/random_weight.h"
#include "eval/timed_runs.h"
#include "methods/packed_copies.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

using kernels::HalfType;
using kernels::MatmulArguments;
using kernels::MatmulDevice;
using kernels::MatmulProblem;
using kernels::PackedShape;
using test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// cpu_plain with a fault.
class FaultyKernel final : public kernels::MatmulKernel {
 public:
  using Fault = std::function<void(const MatmulArguments&, int launches)>;
  explicit FaultyKernel(Fault fault)
      : right_(kernels::matmul_kernels().at("cpu_plain").make()), fault_(std::move(fault)) {}
  std::string_view layout() const override { return right_->layout(); }
  std::string refusal(const MatmulProblem& problem, const MatmulDevice& device) const override {
    return right_->refusal(problem, device);
  }
  int64_t workspace_bytes(const PackedShape&, int64_t, const MatmulDevice&) const override {
    return 64;
  }
  void launch(const MatmulArguments& arguments, void* stream) const override {
    right_->launch(arguments, stream);
    fault_(arguments, launches_++);
  }

 private:
  std::unique_ptr<kernels::MatmulKernel> right_;
  Fault fault_;
  mutable int launches_ = 0;
};

KernelSource source_of(FaultyKernel::Fault fault) {
  return {{"faulty"},
          [](const MatmulProblem&, const MatmulDevice&, const std::string&) {
            return kernels::MatmulChoice{"faulty", "the only one"};
          },
          [fault](const std::string&) { return std::make_unique<FaultyKernel>(fault); }};
}

// Small enough for cpu_plain.
KernelBenchSpec small_spec() {
  KernelBenchSpec spec;
  spec.shapes = {{96, 40}};
  spec.m = {1, 3};
  spec.group_sizes = {32};
  spec.cold = false;
  spec.repetitions = 3;
  spec.read_bytes = int64_t{1} << 22;
  spec.seconds = 0;
  return spec;
}

KernelBenchResult bench(const KernelBenchSpec& spec,
                        const KernelSource& source = registered_kernels()) {
  return bench_kernels(spec, at::kCPU, silent_progress(), source);
}

uint16_t* outputs(const MatmulArguments& arguments) { return static_cast<uint16_t*>(arguments.y); }

TEST(KernelBench, AWrongKernelFailsWithItsNameProblemAndError) {
  const auto result = bench(small_spec(), source_of([](const MatmulArguments& arguments, int) {
                              outputs(arguments)[7] ^= 0x0100;  // a quarter more or less
                            }));
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_EQ(result.failures[0].name, "faulty/96x40/m:1/bits:4/group:32/sym/natural/float16");
  EXPECT_THAT(result.failures[0].reason,
              AllOf(HasSubstr("[faulty/96x40/m:1/bits:4/group:32/sym/natural/float16]"),
                    HasSubstr("times the bound"), HasSubstr("was not timed")));
  // What it was compared with is there; it is not.
  for (const KernelRow& row : result.rows) EXPECT_EQ(row.kernel, "dense");
}

TEST(KernelBench, OutputsThatWereNotWrittenAreWrong) {
  for (const uint16_t bits : {uint16_t{0x7E00}, uint16_t{0x7C00}, uint16_t{0}}) {
    const auto result =
        bench(small_spec(), source_of([bits](const MatmulArguments& arguments, int) {
                outputs(arguments)[arguments.weight.shape.rows - 1] = bits;
              }));
    EXPECT_EQ(result.failures.size(), 2u) << bits;
  }
}

// Right at first, wrong under load: what a race does.
TEST(KernelBench, AResultThatChangesLaterFails) {
  auto spec = small_spec();
  spec.m = {1};
  const auto result = bench(spec, source_of([](const MatmulArguments& arguments, int launches) {
                              if (launches > 3) outputs(arguments)[0] ^= 1;
                            }));
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].reason, HasSubstr("expected the same bits after many launches"));
}

TEST(KernelBench, AFaultOfALaunchFailsOnlyItsKernel) {
  auto spec = small_spec();
  const auto result = bench(spec, source_of([](const MatmulArguments& arguments, int) {
                              if (arguments.m == 3) throw Error("launch", "out of luck");
                            }));
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].reason, HasSubstr("out of luck"));
  EXPECT_EQ(result.rows.size(), 3u);
}

TEST(KernelBench, RowsAreCompleteAndAddUp) {
  auto spec = small_spec();
  spec.bits = {2, 3, 4, 8};
  spec.symmetric = {true, false};
  spec.act_order = {false, true};
  spec.types = {HalfType::kFloat16, HalfType::kBFloat16};
  const auto result = bench(spec);
  ASSERT_TRUE(result.failures.empty()) << result.failures[0].reason;
  // Two dense products in float32, which both types share, beside 2 x 4 x 2 x 2 x 2 kernels.
  ASSERT_EQ(result.rows.size(), 2u + 64u);
  EXPECT_GT(result.read_bytes_per_second, 1e8);
  ASSERT_EQ(result.dense_flops_per_second.size(), 1u);
  EXPECT_EQ(result.dense_flops_per_second[0].first, "float32");
  std::set<std::string> seen;
  for (const KernelRow& row : result.rows) {
    SCOPED_TRACE(row.kernel + " " + std::to_string(row.bits));
    EXPECT_EQ(row.k, 96);
    EXPECT_EQ(row.n, 40);
    EXPECT_GT(row.us, 0);
    EXPECT_LE(row.us_p10, row.us);
    EXPECT_LE(row.us, row.us_p90);
    EXPECT_NEAR(row.gb_per_s * row.us * 1e3, static_cast<double>(row.weight_bytes),
                1e-6 * static_cast<double>(row.weight_bytes));
    EXPECT_NEAR(row.tflop_per_s * row.us * 1e6, static_cast<double>(2 * row.m * 96 * 40), 1e-3);
    EXPECT_NEAR(row.bandwidth_share * row.read_gb_per_s, row.gb_per_s, 1e-9);
    EXPECT_NEAR(row.dense_rate_share * row.dense_tflop_per_s, row.tflop_per_s, 1e-9);
    EXPECT_GT(row.intensity(), 0);
    EXPECT_EQ(row.repetitions, 3);
    EXPECT_GE(row.calls, 1);
    EXPECT_EQ(row.cache, "warm");
    EXPECT_NE(row.reason, "");
    EXPECT_LE(row.error_of_bound, 1);
    EXPECT_GT(row.max_relative_error, 0);
    if (row.dense()) {
      EXPECT_EQ(row.speedup_vs_f16, 1);
      EXPECT_EQ(row.dtype, "float32");
      continue;
    }
    EXPECT_GT(row.speedup_vs_f16, 0);
    EXPECT_LT(row.mean_relative_error, row.dtype == "float16" ? 1e-3 : 1e-2);
    // Codes, a float16 scale for each group of 32, and padding.
    EXPECT_GE(row.weight_bytes, 96 * 40 * row.bits / 8 + 3 * 40 * 2);
    seen.insert(std::to_string(row.m) + std::to_string(row.bits) + (row.symmetric ? "s" : "a") +
                (row.act_order ? "o" : "n") + row.dtype);
  }
  EXPECT_EQ(seen.size(), 64u);
}

TEST(KernelBench, TheKernelAndWhyItWasChosenStandInTheRow) {
  auto spec = small_spec();
  const auto chosen = bench(spec).rows.back();
  EXPECT_EQ(chosen.reason,
            kernels::choose_matmul({.m = 3, .n = 40, .k = 96, .group_size = 32}, {}).reason);
  spec.kernels = {"cpu_plain"};
  const auto wanted = bench(spec).rows.back();
  EXPECT_EQ(wanted.kernel, "cpu_plain");
  EXPECT_EQ(wanted.reason, "asked for");
  spec.kernels = {"all"};
  std::set<std::string> names;
  for (const KernelRow& row : bench(spec).rows) names.insert(row.kernel);
  EXPECT_TRUE(names.contains("cpu_plain"));
  for (const std::string& name : names)
    EXPECT_TRUE(name == "dense" ||
                kernels::choose_matmul({.m = 1, .n = 40, .k = 96}, {}, name).kernel == name);
}

// PF-06: what was asked for, or an error with the kernel's own reason.
TEST(KernelBench, AKernelThatCannotRunIsAnErrorBeforeAnyWork) {
  auto spec = small_spec();
  spec.kernels = {"cuda_plain"};
  for (const auto& ask :
       {std::function([&] { bench(spec); }), std::function([&] { check_kernel_bench(spec, {}); })})
    EXPECT_EQ(message_of(ask), "[kernel cuda_plain] expected a CUDA device, got the CPU");
  spec = small_spec();
  spec.group_sizes = {32, 24};
  EXPECT_THAT(message_of([&] { check_kernel_bench(spec, {}); }), HasSubstr("multiple of 16"));
}

TEST(KernelBench, TheFilterIsARegularExpression) {
  auto spec = small_spec();
  spec.bits = {3, 4};
  const auto names = [&](const std::string& filter) {
    spec.filter = filter;
    std::vector<std::string> result;
    for (const KernelRow& row : bench(spec).rows)
      if (!row.dense()) result.push_back(std::to_string(row.bits) + " " + std::to_string(row.m));
    return result;
  };
  EXPECT_THAT(names("m:1/bits:(3|8)"), ElementsAre("3 1"));
  EXPECT_THAT(names("-bits:3"), ElementsAre("4 1", "4 3"));
  spec.filter = "m:7";
  EXPECT_THAT(message_of([&] { check_kernel_bench(spec, {}); }),
              AllOf(HasSubstr("[filter] expected a regular expression that is found"),
                    HasSubstr("m:7"), HasSubstr("/96x40/m:1/bits:3/")));
  spec.filter = "(";
  EXPECT_THAT(message_of([&] { check_kernel_bench(spec, {}); }), HasSubstr("[filter]"));
}

TEST(KernelBench, ColdWeightsRotate) {
  auto spec = small_spec();
  spec.m = {1};
  spec.shapes = {{512, 512}};
  spec.cold = true;
  spec.cold_bytes = 1'000'000;
  std::set<const void*> weights;
  const auto result = bench(spec, source_of([&](const MatmulArguments& arguments, int launches) {
                              if (launches < 5) weights.insert(arguments.weight.codes);
                              if (launches == 5) throw Error("launch", "seen enough");
                            }));
  // The check, and the first four of the timer.
  EXPECT_EQ(weights.size(), 4u);
  EXPECT_EQ(result.rows.at(0).cache, "cold");
}

// PF-03: more than the hardware has is never passed on without a word.
TEST(KernelBench, RowsBeyondACeilingAreNoted) {
  KernelRow row;
  row.cache = "cold";
  row.bandwidth_share = 0.97;
  row.dense_rate_share = 1.02;
  EXPECT_EQ(beyond_ceiling({row, row}), "");
  row.bandwidth_share = 1.3;
  EXPECT_THAT(beyond_ceiling({row, KernelRow{}}), testing::StartsWith("1 of 2 rows are beyond"));
  row.cache = "warm";
  EXPECT_EQ(beyond_ceiling({row}), "");
}

TEST(KernelBench, CtrlCEndsIt) {
  interrupt_requested() = true;
  EXPECT_THROW(bench(small_spec()), Interrupted);
  interrupt_requested() = false;
}

// Statistics of samples, taken from Google Benchmark, against the samples themselves.
TEST(TimedRuns, MedianAndSpreadAreThoseOfTheSamples) {
  class Fixed final : public kernels::RepetitionTimer {
   public:
    double run() override { return seconds_[next_++]; }
    int64_t calls() const override { return 12; }

   private:
    std::vector<double> seconds_ = {5e-3, 1e-3, 4e-3, 2e-3, 3e-3};
    size_t next_ = 0;
  };
  int finished = 0;
  const auto results = run_timed(
      {{"a", [] { return std::make_unique<Fixed>(); }, [&] { ++finished; }},
       {"b", []() -> std::unique_ptr<kernels::RepetitionTimer> { throw Error("b", "no"); },
        [&] { ++finished; }}},
      5);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].samples,
              testing::Pointwise(testing::DoubleNear(1e-12), {5e-3, 1e-3, 4e-3, 2e-3, 3e-3}));
  EXPECT_NEAR(results[0].median, 3e-3, 1e-12);
  EXPECT_NEAR(results[0].p10, 1.4e-3, 1e-12);
  EXPECT_NEAR(results[0].p90, 4.6e-3, 1e-12);
  EXPECT_EQ(results[0].calls, 12);
  EXPECT_EQ(results[1].failure, "[b] no");
  EXPECT_TRUE(results[1].samples.empty());
  EXPECT_EQ(finished, 1);
}

TEST(RandomWeight, HoldsEveryCodeAndIsTheSameAgain) {
  for (const int64_t bits : {2, 3, 4, 8})
    for (const bool symmetric : {true, false}) {
      const RandomWeightSpec spec{.rows = 40,
                                  .columns = 300,
                                  .bits = bits,
                                  .group_size = 64,
                                  .symmetric = symmetric,
                                  .act_order = true,
                                  .seed = 3};
      const RandomWeight weight(spec), again(spec);
      const auto view = weight.view();
      const std::set<uint8_t> codes(view.codes, view.codes + 40 * 300);
      EXPECT_EQ(codes.size(), size_t{1} << bits);
      EXPECT_LT(*codes.rbegin(), 1 << bits);
      EXPECT_EQ(view.groups, 5);
      std::vector<int> members(5, 0);
      for (int64_t i = 0; i < 300; ++i) ++members[static_cast<size_t>(view.group_of_input[i])];
      EXPECT_THAT(members, ElementsAre(64, 64, 64, 64, 44));
      for (int64_t i = 0; i < 40 * 5; ++i) {
        EXPECT_EQ(static_cast<float>(c10::Half(view.scales[i])), view.scales[i]);
        EXPECT_LT(view.zeros[i], 1 << bits);
        if (symmetric) {
          EXPECT_EQ(view.zeros[i], 1 << (bits - 1));
        }
      }
      EXPECT_TRUE(std::equal(view.codes, view.codes + 40 * 300, again.view().codes));
    }
}

// The benchmark's check against the oracle of the kernels' own tests, which adds one term after the
// other.
TEST(ExactProduct, IsTheProductAndNoticesOneWrongCode) {
  for (const HalfType type : {HalfType::kFloat16, HalfType::kBFloat16}) {
    test::MatmulData data = test::matmul_data({.m = 4,
                                               .n = 30,
                                               .k = 200,
                                               .bits = 4,
                                               .group_size = 48,
                                               .order = test::ColumnOrder::kActOrder,
                                               .bias = true,
                                               .type = type});
    const auto scalar = type == HalfType::kFloat16 ? at::kHalf : at::kBFloat16;
    const auto tensor = [&](std::vector<uint16_t>& bits, at::IntArrayRef sizes) {
      return at::from_blob(bits.data(), sizes, at::TensorOptions().dtype(scalar));
    };
    const auto x = tensor(data.x, {4, 200}), bias = tensor(data.bias, {30});
    const ExactProduct exact(data.view(), at::kCPU);
    const auto rounded = [&] {
      std::vector<uint16_t> y;
      for (const double value : test::exact_matmul(data, {}).y)
        y.push_back(kernels::bits_of(type, static_cast<float>(value)));
      return tensor(y, {4, 30}).clone();
    };
    const ProductError right = exact.error_of(x, bias, rounded());
    EXPECT_TRUE(right.right()) << right.of_bound;
    EXPECT_LT(right.max_relative, type == HalfType::kFloat16 ? 0x1p-11 : 0x1p-8);
    // A column whose activations are 20 times larger, off by two steps.
    data.codes[17 * 200 + 5] ^= 2;
    EXPECT_FALSE(exact.error_of(x, bias, rounded()).right());
  }
}

TEST(ExactProduct, NotANumberIsNeverRight) {
  const RandomWeight weight({.rows = 8, .columns = 32});
  const ExactProduct exact(weight.view(), at::kCPU);
  const auto x = at::ones({2, 32}, at::kHalf);
  EXPECT_FALSE(exact.error_of(x, {}, at::full({2, 8}, NAN, x.options())).right());
  EXPECT_FALSE(exact.error_of(x, {}, at::full({2, 8}, INFINITY, x.options())).right());
}

}  // namespace
}  // namespace gptqb
