// Every CUDA kernel of kernels.def against float64, over the whole format.
//
// For compute-sanitizer: --gtest_filter='*MatmulCuda.Odd*', with PYTORCH_NO_CUDA_MEMORY_CACHING=1,
// so that each tensor is an allocation of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>

#include "common/error.h"
#include "eval/kernel_bench.h"
#include "eval/random_weight.h"
#include "kernels/device_info.h"
#include "kernels/matmul_limits.h"
#include "kernels/timing.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"
#include "methods/matmul_device.h"
#include "methods/packed_copies.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

using kernels::HalfType;
using test::ColumnOrder;
using test::MatmulCase;
using test::MatmulData;
using testing::HasSubstr;

const at::Device kDevice(at::kCUDA, 0);

// Device memory between two guards, which nothing may write.
class Guarded {
 public:
  explicit Guarded(int64_t bytes, uint8_t fill)
      : bytes_(bytes),
        memory_(at::full({bytes + 2 * kGuard}, kPattern, at::device(kDevice).dtype(at::kByte))) {
    inside().fill_(fill);
  }
  at::Tensor inside() const { return memory_.narrow(0, kGuard, bytes_); }
  void* data() const { return static_cast<uint8_t*>(memory_.data_ptr()) + kGuard; }
  bool intact() const {
    const auto guards =
        at::cat({memory_.narrow(0, 0, kGuard), memory_.narrow(0, kGuard + bytes_, kGuard)});
    return guards.eq(kPattern).all().item<bool>();
  }

 private:
  static constexpr int64_t kGuard = 1024;
  static constexpr int64_t kPattern = 0xA5;
  int64_t bytes_;
  at::Tensor memory_;
};

at::Tensor from_bits(const std::vector<uint16_t>& bits, at::IntArrayRef sizes, HalfType type) {
  return at::from_blob(const_cast<uint16_t*>(bits.data()), sizes,
                       at::TensorOptions().dtype(scalar_type(type)))
      .to(kDevice, /*non_blocking=*/false, /*copy=*/true);
}

// One kernel at work on one weight.
class MatmulCuda : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto& entry = kernels::matmul_kernels().at(GetParam());
    ASSERT_EQ(entry.unavailable, "");
    device_ = matmul_device(kDevice);
    kernel_ = entry.make();
  }

  // Waits for everything queued on the current stream.
  static void queue_is_done() {
    const c10::impl::VirtualGuardImpl guard(at::kCUDA);
    guard.getStream(kDevice).synchronize();
  }

  // Why this kernel cannot run it; empty if it can.
  std::string refusal(const kernels::MatmulProblem& problem) const {
    return kernel_->refusal(problem, device_);
  }

  PackedCopies pack(const kernels::QuantView& view) const {
    return PackedCopies(kernel_->layout(), view, kDevice, [](int64_t) { return 1; });
  }

  // y = x w^T + bias; checks that guards are intact, that nothing is made of what the workspace
  // held, and that a second launch gives the same bits.
  at::Tensor run(const PackedCopies& packed, kernels::MatmulProblem problem, const at::Tensor& x,
                 const at::Tensor& bias) const {
    queue_is_done();  // x and the weight were made on another stream
    const SideStream stream(kDevice);
    problem.m = x.size(0);
    const int64_t outputs = problem.m * problem.n;
    const Guarded workspace(kernel_->workspace_bytes(packed.view(0).shape, problem.m, device_),
                            0xFF);  // NaN
    const auto flags = workspace.inside().narrow(
        0, 0, std::min<int64_t>(workspace.inside().size(0), kernels::kMatmulFlagBytes));
    flags.zero_();
    kernels::MatmulArguments arguments;
    arguments.m = problem.m;
    arguments.type = problem.type;
    arguments.weight = packed.view(0);
    arguments.x = x.const_data_ptr();
    if (bias.defined()) arguments.bias = bias.const_data_ptr();
    arguments.workspace = workspace.data();
    at::Tensor first;
    for (int launch = 0; launch < 2; ++launch) {
      const Guarded y(2 * outputs, 0xFF);  // NaN in both types
      arguments.y = y.data();
      kernel_->launch(arguments, stream.handle());
      stream.synchronize();
      EXPECT_TRUE(y.intact()) << "y was written outside";
      const auto result = y.inside().clone();
      if (launch == 0) first = result;
      EXPECT_TRUE(at::equal(result, first)) << "two launches, two results";
      EXPECT_TRUE(workspace.intact()) << "the workspace was written outside";
      EXPECT_TRUE(flags.eq(0).all().item<bool>()) << "flags are left raised";
    }
    return first.view(scalar_type(problem.type)).view({problem.m, problem.n});
  }

  at::Tensor run(const MatmulData& data) const {
    const auto x = from_bits(data.x, {data.of.m, data.of.k}, data.of.type);
    at::Tensor bias;
    if (data.of.bias) bias = from_bits(data.bias, {data.of.n}, data.of.type);
    return run(pack(data.view()), data.problem(), x, bias);
  }

  // Runs `wanted` unless the kernel refuses it, and holds all of it against float64.
  bool check(const MatmulCase& wanted, uint64_t seed = 1) {
    MatmulData only_sizes;
    only_sizes.of = wanted;
    if (!refusal(only_sizes.problem()).empty()) return false;
    const MatmulData data = test::matmul_data(wanted, seed);
    SCOPED_TRACE(GetParam() + ": " + wanted.text());
    const auto x = from_bits(data.x, {wanted.m, wanted.k}, wanted.type);
    at::Tensor bias;
    if (wanted.bias) bias = from_bits(data.bias, {wanted.n}, wanted.type);
    const auto y = run(pack(data.view()), data.problem(), x, bias);
    const ProductError error = ExactProduct(data.view(), kDevice).error_of(x, bias, y);
    EXPECT_TRUE(error.right()) << "error " << error.of_bound << " of its bound";
    ++checked_;
    return true;
  }

  // Large weights, from the generator of the benchmark.
  void check(const RandomWeight& weight, const PackedCopies& packed, const ExactProduct& exact,
             int64_t m, HalfType type) {
    kernels::MatmulProblem problem;
    problem.m = m;
    problem.n = weight.spec().rows;
    problem.k = weight.spec().columns;
    problem.bits = weight.spec().bits;
    problem.group_size = weight.spec().group_size;
    problem.symmetric = weight.spec().symmetric;
    problem.act_order = weight.spec().act_order;
    problem.type = type;
    if (!refusal(problem).empty()) return;
    SCOPED_TRACE("m " + std::to_string(m) + " of " + std::to_string(problem.k) + " x " +
                 std::to_string(problem.n) + ", " + std::to_string(problem.bits) + " bits");
    at::manual_seed(m);
    const auto x = at::randn({m, problem.k}, at::device(kDevice)).to(scalar_type(type));
    const ProductError error = exact.error_of(x, {}, run(packed, problem, x, {}));
    EXPECT_TRUE(error.right()) << "error " << error.of_bound << " of its bound";
    ++checked_;
  }

  void TearDown() override {
    if (checked_ == 0 && !HasFailure() && !IsSkipped()) GTEST_SKIP() << "refuses all of it here";
  }

  kernels::MatmulDevice device_;
  std::unique_ptr<kernels::MatmulKernel> kernel_;
  int64_t checked_ = 0;
};

std::vector<std::string> cuda_kernels() {
  std::vector<std::string> names;
  for (const std::string& name : kernels::matmul_kernels().names())
    if (kernels::matmul_limits(name).cuda) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatmulCuda, testing::ValuesIn(cuda_kernels()),
                         [](const auto& each) { return each.param; });

constexpr std::array<int64_t, 4> kBits = {2, 3, 4, 8};
constexpr std::array<int64_t, 7> kGroups = {-1, 16, 32, 48, 64, 128, 256};
constexpr std::array<int64_t, 15> kRows = {1,  2,  3,  7,   8,   15,  16,  17,
                                           31, 33, 64, 100, 128, 257, 1024};
constexpr std::array<HalfType, 2> kTypes = {HalfType::kFloat16, HalfType::kBFloat16};
constexpr std::array<ColumnOrder, 4> kOrders = {ColumnOrder::kNatural, ColumnOrder::kActOrder,
                                                ColumnOrder::kIndexed, ColumnOrder::kUneven};

// All formats; rows and sizes go round, by steps that have no factor in common with the lengths of
// the lists, so that every pair of them meets.
TEST_P(MatmulCuda, EveryFormatAtSomeSize) {
  constexpr std::array<int64_t, 11> kInputs = {520, 129, 300, 515, 1000, 77, 384, 17, 256, 640, 1};
  constexpr std::array<int64_t, 8> kOutputs = {130, 5, 48, 63, 1, 257, 64, 192};
  size_t turn = 0;
  for (const int64_t bits : kBits)
    for (const int64_t group : kGroups)
      for (const bool symmetric : {true, false})
        for (const ColumnOrder order : kOrders)
          for (const HalfType type : kTypes)
            for (int draw = 0; draw < 2; ++draw, ++turn)
              check({.m = kRows[turn * 7 % kRows.size()],
                     .n = kOutputs[turn * 3 % kOutputs.size()],
                     .k = kInputs[turn * 5 % kInputs.size()],
                     .bits = bits,
                     .group_size = group,
                     .symmetric = symmetric,
                     .order = order,
                     .bias = turn % 3 == 0,
                     .type = type},
                    turn);
}

// Every number of rows with every width in full, at sizes that no tile divides.
TEST_P(MatmulCuda, EveryNumberOfRows) {
  for (const int64_t bits : kBits)
    for (const int64_t m : kRows)
      for (const HalfType type : kTypes)
        check({.m = m, .n = 200, .k = 392, .bits = bits, .group_size = 64, .type = type});
}

// KN-03: paths for few rows end at other places than the tests of other tools looked at.
TEST_P(MatmulCuda, RowsAroundEveryTile) {
  for (const int64_t bits : {4, 3})
    for (int64_t m = 1; m <= 17; ++m)
      check({.m = m, .n = 136, .k = 264, .bits = bits, .group_size = 128});
  for (const int64_t middle : {32, 50, 64, 96, 128, 192, 256, 512})
    for (const int64_t m : {middle - 1, middle, middle + 1})
      check({.m = m, .n = 136, .k = 264, .bits = 4, .group_size = 128});
}

// Small enough for compute-sanitizer: what is cut off everywhere.
TEST_P(MatmulCuda, OddShapes) {
  for (const int64_t bits : kBits)
    for (const int64_t m : {1, 3, 17, 33, 130})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{5, 33}, {67, 300}}) {
        check({.m = m, .n = n, .k = k, .bits = bits, .group_size = 48, .bias = true});
        check({.m = m,
               .n = n,
               .k = k,
               .bits = bits,
               .group_size = 16,
               .symmetric = true,
               .order = ColumnOrder::kActOrder,
               .type = HalfType::kBFloat16});
      }
}

// KN-04
TEST_P(MatmulCuda, OddInputsAndOutputsOfTheField) {
  for (const int64_t k : {32, 96, 192, 2880})
    for (const int64_t n : {5, 48, 2880})
      for (const int64_t m : {1, 20}) check({.m = m, .n = n, .k = k, .bits = 4, .group_size = 32});
}

// The host's element by element product says the same as the one in float64 on the device that the
// other tests use.
TEST_P(MatmulCuda, AgreesWithTheProductOnTheHost) {
  for (const int64_t bits : kBits)
    for (const HalfType type : kTypes) {
      const MatmulData data = test::matmul_data({.m = 9,
                                                 .n = 70,
                                                 .k = 200,
                                                 .bits = bits,
                                                 .group_size = 64,
                                                 .order = ColumnOrder::kActOrder,
                                                 .bias = true,
                                                 .type = type});
      if (!refusal(data.problem()).empty()) continue;
      ++checked_;
      const double unit = type == HalfType::kFloat16 ? 0x1p-11 : 0x1p-8;
      const auto exact = test::exact_matmul(data, {.sums = 200 * 0x1p-23, .products = unit});
      const auto y = run(data).cpu().contiguous();
      EXPECT_LE(test::share_of_bound(data, exact, static_cast<const uint16_t*>(y.const_data_ptr())),
                1)
          << data.of.text();
    }
}

// Whole products at the sizes of real layers.
TEST_P(MatmulCuda, LargeLayers) {
  // The last one: few rows of so many columns that these are split whatever M is.
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{4096, 4096},
                             {4096, 11008},
                             {22016, 4096},
                             {11008, 4096},
                             {32, 65664}})
    for (const int64_t bits : kBits) {
      const RandomWeight weight({.rows = n,
                                 .columns = k,
                                 .bits = bits,
                                 .group_size = 128,
                                 .symmetric = bits != 3,
                                 .act_order = bits == 2});
      const PackedCopies packed = pack(weight.view());
      const ExactProduct exact(weight.view(), kDevice);
      for (const int64_t m : {1, 2, 8, 16, 33, 64, 257, 1024})
        check(weight, packed, exact, m, m % 2 == 0 ? HalfType::kFloat16 : HalfType::kBFloat16);
    }
}

// As many tiles of rows as an H200 has multiprocessors, of as many strips as there are warps.
TEST_P(MatmulCuda, AStripForEachWarp) {
  const RandomWeight weight({.rows = 50688, .columns = 5504, .bits = 4, .group_size = 128});
  check(weight, pack(weight.view()), ExactProduct(weight.view(), kDevice), 16, HalfType::kFloat16);
}

// KN-02 and KN-11: a race shows now and then, and sums split over blocks must add in one order.
TEST_P(MatmulCuda, ManyLaunchesGiveTheSameBits) {
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{16, 256, 512},
                                {1, 64, 8192},
                                {1, 4096, 4096},
                                {16, 64, 8192},
                                {64, 64, 8192},
                                {200, 320, 4096}}) {
    const RandomWeight weight({.rows = n, .columns = k, .bits = 4, .group_size = 128});
    const PackedCopies packed = pack(weight.view());
    kernels::MatmulProblem problem{.m = m, .n = n, .k = k, .bits = 4, .group_size = 128};
    if (!refusal(problem).empty()) continue;
    ++checked_;
    const SideStream stream(kDevice);
    at::manual_seed(1);
    const auto x = at::randn({m, k}, at::device(kDevice)).to(at::kHalf);
    const auto workspace =
        at::zeros({kernel_->workspace_bytes(packed.view(0).shape, problem.m, device_) + 16},
                  at::device(kDevice).dtype(at::kByte));
    at::Tensor first;
    int64_t other = 0;
    for (int i = 0; i < 200; ++i) {
      const auto y = at::full({m, n}, NAN, x.options());
      kernels::MatmulArguments arguments;
      arguments.m = m;
      arguments.weight = packed.view(0);
      arguments.x = x.const_data_ptr();
      arguments.y = y.data_ptr();
      arguments.workspace = workspace.data_ptr();
      kernel_->launch(arguments, stream.handle());
      if (i == 0) first = y;
      other += at::equal(y, first) ? 0 : 1;
    }
    EXPECT_EQ(other, 0) << "of 200 launches at m " << m << ", " << k << " x " << n;
  }
}

// KN-01, and how the benchmark runs: in a graph, again and again, one launch after the other.
TEST_P(MatmulCuda, AGraphFollowsItsInput) {
  const SideStream stream(kDevice);
  for (const int64_t n : {4096, 11008}) {
    const RandomWeight weight({.rows = n, .columns = 4096, .bits = 4, .group_size = 128});
    const PackedCopies packed(kernel_->layout(), weight.view(), kDevice, [](int64_t) { return 7; });
    const ExactProduct exact(weight.view(), kDevice);
    for (const HalfType type : {HalfType::kFloat16, HalfType::kBFloat16})
      for (const int64_t m : {1, 16, 64, 256}) {
        const kernels::MatmulProblem problem{
            .m = m, .n = n, .k = 4096, .bits = 4, .group_size = 128, .type = type};
        if (!refusal(problem).empty()) continue;
        ++checked_;
        at::manual_seed(1);
        auto x = at::randn({m, 4096}, at::device(kDevice)).to(scalar_type(type));
        auto y = at::full({m, n}, NAN, x.options());
        const auto workspace =
            at::zeros({kernel_->workspace_bytes(packed.view(0).shape, m, device_) + 16},
                      at::device(kDevice).dtype(at::kByte));
        const auto timer = kernels::time_on_cuda(
            [&](int64_t copy, void* handle) {
              kernels::MatmulArguments arguments;
              arguments.m = m;
              arguments.type = type;
              arguments.weight = packed.view(copy);
              arguments.x = x.const_data_ptr();
              arguments.y = y.data_ptr();
              arguments.workspace = workspace.data_ptr();
              kernel_->launch(arguments, handle);
            },
            {.copies = 7}, stream.handle());
        EXPECT_TRUE(exact.error_of(x, {}, y).right());
        x.mul_(-0.5);
        y.fill_(NAN);
        EXPECT_GT(timer->run(), 0);
        EXPECT_TRUE(exact.error_of(x, {}, y).right()) << "the graph kept an old input";
      }
  }
}

// KN-05: more rows than a grid's second dimension holds.
TEST_P(MatmulCuda, ManyRows) {
  const RandomWeight weight({.rows = 64, .columns = 64, .bits = 4, .group_size = -1});
  check(weight, pack(weight.view()), ExactProduct(weight.view(), kDevice), 2 * 65536 + 3,
        HalfType::kFloat16);
}

// KN-06: activations, then results, of more than 2^31 numbers; their ends are held against float64.
TEST_P(MatmulCuda, OffsetsGoBeyond32Bits) {
  constexpr int64_t kRowsOfX = 70'000;
  size_t free = 0;
  for (const kernels::DeviceInfo& gpu : kernels::cuda_info().devices)
    if (gpu.index == 0) free = static_cast<size_t>(gpu.memory_free);
  if (free < (size_t{24} << 30)) GTEST_SKIP() << "needs 24 GiB of device memory";
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{64, 32768}, {32768, 64}}) {
    const RandomWeight weight({.rows = n, .columns = k, .bits = 4, .group_size = -1});
    const kernels::MatmulProblem problem{.m = kRowsOfX, .n = n, .k = k};
    if (!refusal(problem).empty()) continue;
    ++checked_;
    const ExactProduct exact(weight.view(), kDevice);
    const PackedCopies packed = pack(weight.view());
    at::manual_seed(1);
    const SideStream stream(kDevice);
    const auto x = at::randn({kRowsOfX, k}, at::device(kDevice).dtype(at::kHalf));
    const auto y = at::full({kRowsOfX, n}, NAN, x.options());
    const auto workspace =
        at::zeros({kernel_->workspace_bytes(packed.view(0).shape, problem.m, device_) + 16},
                  at::device(kDevice).dtype(at::kByte));
    kernels::MatmulArguments arguments;
    arguments.m = kRowsOfX;
    arguments.weight = packed.view(0);
    arguments.x = x.const_data_ptr();
    arguments.y = y.data_ptr();
    arguments.workspace = workspace.data_ptr();
    kernel_->launch(arguments, stream.handle());
    stream.synchronize();
    for (const int64_t begin : {int64_t{0}, kRowsOfX / 2, kRowsOfX - 100})
      EXPECT_TRUE(exact.error_of(x.narrow(0, begin, 100), {}, y.narrow(0, begin, 100)).right())
          << "rows from " << begin;
  }
}

// KN-07: nothing is sized for 2048 rows.
TEST_P(MatmulCuda, ActOrderWithManyRows) {
  const RandomWeight weight(
      {.rows = 264, .columns = 520, .bits = 4, .group_size = 32, .act_order = true});
  const PackedCopies packed = pack(weight.view());
  const ExactProduct exact(weight.view(), kDevice);
  for (const int64_t m : {2047, 2048, 2049, 5000})
    check(weight, packed, exact, m, HalfType::kFloat16);
}

// KN-08: the smallest outputs with the longest sums, where split sums have the most to keep.
TEST_P(MatmulCuda, FewOutputsOfLongSums) {
  for (const int64_t bits : kBits)
    for (const int64_t n : {1, 8, 64})
      for (const int64_t m : {1, 2, 16, 40})
        check({.m = m, .n = n, .k = 4096, .bits = bits, .group_size = 128});
}

// KN-09: two halves of the columns, each packed alone, add up to the whole.
TEST_P(MatmulCuda, HalvesOfActOrderAddUp) {
  const MatmulData whole = test::matmul_data(
      {.m = 5, .n = 96, .k = 512, .bits = 4, .group_size = 32, .order = ColumnOrder::kActOrder});
  if (!refusal(whole.problem()).empty()) return;
  const auto x = from_bits(whole.x, {5, 512}, HalfType::kFloat16);
  at::Tensor sum = at::zeros({5, 96}, at::device(kDevice).dtype(at::kDouble));
  for (int half = 0; half < 2; ++half) {
    MatmulData part = whole;
    part.of.k = 256;
    part.codes.clear();
    for (int64_t row = 0; row < 96; ++row)
      part.codes.insert(part.codes.end(), whole.codes.begin() + row * 512 + half * 256,
                        whole.codes.begin() + row * 512 + half * 256 + 256);
    part.group_of_input.assign(whole.group_of_input.begin() + half * 256,
                               whole.group_of_input.begin() + half * 256 + 256);
    const auto columns = x.narrow(1, half * 256, 256).contiguous();
    sum += run(pack(part.view()), part.problem(), columns, {}).to(at::kDouble);
  }
  const auto once = run(whole).to(at::kDouble);
  ++checked_;
  EXPECT_LT((sum - once).abs().max().item<double>(), 4e-3 * once.abs().max().item<double>());
}

// KN-10: partial sums beyond float16's largest number, which cancel.
TEST_P(MatmulCuda, SumsMayExceedFloat16) {
  MatmulData data = test::matmul_data(
      {.m = 3, .n = 64, .k = 4096, .bits = 4, .group_size = 128, .symmetric = true});
  std::fill(data.codes.begin(), data.codes.end(), uint8_t{9});  // weights of 1
  std::fill(data.scales.begin(), data.scales.end(), 1.0F);
  for (size_t i = 0; i < data.x.size(); ++i)
    data.x[i] = kernels::half_of_float(i % 4096 < 2048 ? 32.0F : -31.5F);
  if (!refusal(data.problem()).empty()) return;
  ++checked_;
  EXPECT_TRUE(run(data).eq(1024).all().item<bool>());
}

// KN-13: zero points in the file that are those of a symmetric grid change nothing.
TEST_P(MatmulCuda, SymmetricZeroPointsAreNotStored) {
  const MatmulData data = test::matmul_data(
      {.m = 4, .n = 64, .k = 256, .bits = 4, .group_size = 64, .symmetric = true});
  if (!refusal(data.problem()).empty()) return;
  ++checked_;
  EXPECT_TRUE(pack(data.view()).shape().symmetric);
  EXPECT_EQ(pack(data.view()).view(0).zeros, nullptr);
}

// KN-15: what lies round the activations is no number.
TEST_P(MatmulCuda, NothingBesideTheActivationsIsUsed) {
  for (const int64_t k : {40, 136, 300})
    for (const int64_t m : {1, 3, 20, 70}) {
      const MatmulData data =
          test::matmul_data({.m = m, .n = 70, .k = k, .bits = 4, .group_size = 16});
      if (!refusal(data.problem()).empty()) continue;
      ++checked_;
      const auto x = from_bits(data.x, {m, k}, HalfType::kFloat16);
      const int64_t around = 1 << 14;
      const auto wide = at::full({m * k + 2 * around}, NAN, x.options());
      const auto inside = wide.narrow(0, around, m * k).view({m, k});
      inside.copy_(x);
      const PackedCopies packed = pack(data.view());
      const auto y = run(packed, data.problem(), inside, {});
      EXPECT_TRUE(y.isfinite().all().item<bool>()) << "m " << m << " k " << k;
      EXPECT_TRUE(at::equal(y, run(packed, data.problem(), x, {})));
    }
}

// KN-17
TEST_P(MatmulCuda, GroupsThatNoTileHoldsAreRefused) {
  for (const int64_t group : {8, 24, 100})
    EXPECT_THAT(refusal({.m = 1, .n = 64, .k = 1024, .bits = 4, .group_size = group}),
                HasSubstr("multiple of 16"));
  ++checked_;
}

// KN-20: other sums than for many rows, so not the same bits, but as near to the exact value.
TEST_P(MatmulCuda, OneRowOfManyIsAsGoodAsOneAlone) {
  const MatmulData many =
      test::matmul_data({.m = 8, .n = 256, .k = 1024, .bits = 4, .group_size = 128});
  MatmulData one = many;
  one.of.m = 1;
  one.x.resize(1024);
  if (!refusal(many.problem()).empty() || !refusal(one.problem()).empty()) return;
  ++checked_;
  const auto exact = test::exact_matmul(one, {});
  const auto of_many = run(many).cpu().to(at::kDouble);
  const auto alone = run(one).cpu().to(at::kDouble);
  double size = 0;
  for (const double value : exact.y) size = std::max(size, std::abs(value));
  for (int64_t row = 0; row < 256; ++row) {
    const double value = exact.y[static_cast<size_t>(row)];
    // Two steps of float16 at the size of these outputs.
    const double step = 0x1p-10 * std::exp2(std::floor(std::log2(size)));
    EXPECT_NEAR(of_many[0][row].item<double>(), value, 2 * step);
    EXPECT_NEAR(alone[0][row].item<double>(), value, 2 * step);
  }
}

// KN-19. The last one: a fault of alignment ends all work of a process on its GPU.
TEST_P(MatmulCuda, MisalignedActivationsAreRefusedOrRight) {
  const MatmulData data =
      test::matmul_data({.m = 4, .n = 70, .k = 256, .bits = 4, .group_size = 64});
  if (!refusal(data.problem()).empty()) return;
  ++checked_;
  const auto x = from_bits(data.x, {4, 256}, HalfType::kFloat16);
  const PackedCopies packed = pack(data.view());
  const auto expected = run(packed, data.problem(), x, {});
  for (const int64_t shift : {1, 2}) {
    const auto wide = at::zeros({4 * 256 + shift}, x.options());
    const auto shifted = wide.narrow(0, shift, 4 * 256).view({4, 256});
    shifted.copy_(x);
    try {
      EXPECT_TRUE(at::equal(run(packed, data.problem(), shifted, {}), expected)) << shift;
    } catch (const Error& fault) {
      EXPECT_THAT(fault.what(), HasSubstr("align"));
    }
  }
}

}  // namespace
}  // namespace gptqb
