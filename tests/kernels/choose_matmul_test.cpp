// The contract of kernels.def, and selection without a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "kernels/device_info.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "tests/support/message.h"

namespace gptqb::kernels {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr MatmulDevice kCpu{};
constexpr MatmulDevice kH200{
    .cuda = true, .capability = 90, .multiprocessors = 132, .shared_bytes = 232448};

MatmulProblem problem_of(int64_t bits, int64_t group_size, int64_t m = 1) {
  MatmulProblem problem;
  problem.m = m;
  problem.n = 4096;
  problem.k = 4096;
  problem.bits = bits;
  problem.group_size = group_size;
  return problem;
}

MatmulDevice cuda_of(int64_t capability) {
  return {.cuda = true, .capability = capability, .multiprocessors = 100};
}

TEST(MatmulKernels, FilesAndLinesAgree) {
  static const std::regex kMake(R"(std::unique_ptr<MatmulKernel> make_(\w+)\(\))");
  std::multiset<std::string> made;
  const auto folder = std::filesystem::path(GPTQB_SOURCE_DIR) / "kernels" / "impl";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path());
    std::ostringstream text;
    text << stream.rdbuf();
    const std::string source = text.str();
    const std::sregex_iterator first(source.begin(), source.end(), kMake);
    EXPECT_LE(std::distance(first, std::sregex_iterator()), 1) << entry.path();
    for (auto it = first; it != std::sregex_iterator(); ++it) {
      made.insert(it->str(1));
      const bool cuda = entry.path().extension() == ".cu";
      EXPECT_EQ(matmul_limits(it->str(1)).cuda, cuda) << entry.path();
    }
  }
  const auto names = matmul_kernels().names();
  EXPECT_EQ(made, std::multiset<std::string>(names.begin(), names.end()));
}

TEST(MatmulKernels, CudaEntriesOfABuildWithoutCudaSayWhy) {
  for (const auto& entry : matmul_kernels().entries()) {
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_EQ(entry.unavailable, matmul_limits(entry.name).cuda ? built_without_cuda() : "");
    if (entry.unavailable.empty()) continue;
    EXPECT_THAT(message_of([&] { entry.make(); }), HasSubstr(entry.unavailable));
  }
}

TEST(MatmulKernels, RefuseWhatTheTableSays) {
  for (const auto& entry : matmul_kernels().entries()) {
    if (!entry.unavailable.empty()) continue;
    const auto kernel = entry.make();
    EXPECT_TRUE(kernel->layout() == "tiles" || kernel->layout() == "rows") << entry.name;
    for (const auto& device : {kCpu, kH200, cuda_of(75)})
      for (const int64_t bits : {2, 3, 4, 5, 8})
        for (const int64_t m : {1, 100, 4096}) {
          const auto problem = problem_of(bits, 128, m);
          EXPECT_EQ(kernel->refusal(problem, device), matmul_refusal(entry.name, problem, device));
        }
  }
}

TEST(ChooseMatmul, EveryProblemOfTheFormatHasAKernelOnEveryDevice) {
  for (const auto& device : {kCpu, cuda_of(80), cuda_of(89), kH200, cuda_of(120)})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const int64_t group : {-1, 16, 32, 48, 64, 128, 256})
        for (const int64_t m : {1, 16, 17, 100, 128, 4096, 131075}) {
          const auto problem = problem_of(bits, group, m);
          const auto choice = choose_matmul(problem, device);
          EXPECT_EQ(matmul_refusal(choice.kernel, problem, device), "");
          EXPECT_TRUE(matmul_kernels().has(choice.kernel));
          EXPECT_THAT(choice.reason, StartsWith("M = " + std::to_string(m) + ", "));
          EXPECT_EQ(choice.kernel.substr(0, 4), device.cuda ? "cuda" : "cpu_");
        }
}

TEST(ChooseMatmul, TakesTheFastestThatRunsThere) {
  const auto chosen = [](int64_t bits, int64_t m, const MatmulDevice& device) {
    return choose_matmul(problem_of(bits, 128, m), device).kernel;
  };
  for (const int64_t bits : {2, 3, 4, 8}) {
    EXPECT_EQ(chosen(bits, 1, kH200), "cuda_strips");
    EXPECT_EQ(chosen(bits, 16, kH200), "cuda_strips");
    EXPECT_EQ(chosen(bits, 17, kH200), "cuda_wide");
    EXPECT_EQ(chosen(bits, 4096, kH200), "cuda_wide");
  }
  // The copy engine and warpgroup products are Hopper's alone.
  for (const int64_t capability : {80, 89, 100, 120}) {
    EXPECT_EQ(chosen(4, 32, cuda_of(capability)), "cuda_tiles");
    EXPECT_EQ(chosen(4, 33, cuda_of(capability)), "cuda_plain");
  }
  EXPECT_EQ(chosen(4, 1, kCpu), "cpu_rows");
  EXPECT_EQ(message_of([] { choose_matmul(problem_of(4, 128, 17), kH200, "cuda_strips"); }),
            "[kernel cuda_strips] expected at most 16 rows of activations, got 17");
  EXPECT_EQ(message_of([] { choose_matmul(problem_of(4, 128, 33), kH200, "cuda_tiles"); }),
            "[kernel cuda_tiles] expected at most 32 rows of activations, got 33");
}

// 99 KB a block, as on compute capability 8.6, 8.9 and 12.0.
TEST(ChooseMatmul, SharedMemoryDecidesToo) {
  MatmulDevice small = cuda_of(89);
  small.shared_bytes = int64_t{99} * 1024;
  EXPECT_EQ(choose_matmul(problem_of(4, 128, 1), small).kernel, "cuda_tiles");
  EXPECT_EQ(choose_matmul(problem_of(4, 128, 32), small).kernel, "cuda_plain");
  EXPECT_THAT(message_of([&] { choose_matmul(problem_of(8, 128, 32), small, "cuda_tiles"); }),
              HasSubstr("expected a device with more shared memory for 8 bits and 32 rows of "
                        "activations, got one of 101376 bytes a block"));
}

TEST(ChooseMatmul, DevicesTooOldAreRefusedWithTheReason) {
  for (const int64_t capability : {61, 70, 75})
    EXPECT_THAT(message_of([&] { choose_matmul(problem_of(4, 128), cuda_of(capability)); }),
                HasSubstr("expected a device of compute capability 8.0 or newer, got " +
                          std::to_string(capability / 10) + "."));
}

TEST(ChooseMatmul, WantedIsThatKernelOrAnError) {
  EXPECT_EQ(choose_matmul(problem_of(4, 128), kCpu, "cpu_plain").kernel, "cpu_plain");
  EXPECT_EQ(choose_matmul(problem_of(4, 128), kH200, "cuda_plain").kernel, "cuda_plain");
  EXPECT_EQ(choose_matmul(problem_of(4, 128), kH200, "cuda_plain").reason, "asked for");
  EXPECT_EQ(message_of([] { choose_matmul(problem_of(4, 128), kCpu, "cuda_plain"); }),
            "[kernel cuda_plain] expected a CUDA device, got the CPU");
  EXPECT_EQ(message_of([] { choose_matmul(problem_of(4, 128), kH200, "cpu_plain"); }),
            "[kernel cpu_plain] expected the CPU, got a CUDA device");
  EXPECT_EQ(message_of([] { choose_matmul(problem_of(4, 128), cuda_of(75), "cuda_plain"); }),
            "[kernel cuda_plain] expected a device of compute capability 8.0 or newer, got 7.5");
  EXPECT_THAT(message_of([] { choose_matmul(problem_of(4, 128), kCpu, "cpu_plian"); }),
              HasSubstr("Did you mean 'cpu_plain'?"));
}

TEST(ChooseMatmul, ProblemsThatNoKernelRunsSayWhy) {
  for (const char* wanted : {"", "cpu_plain"}) {
    const auto refusal_of = [&](const MatmulProblem& problem) {
      return message_of([&] { choose_matmul(problem, kCpu, wanted); });
    };
    EXPECT_THAT(refusal_of(problem_of(kTernaryBits, 128)),
                HasSubstr("got ternary ones: the three levels of a group are no scale and zero "
                          "point, such weights are dequantized"));
    EXPECT_THAT(refusal_of(problem_of(5, 128)), HasSubstr("2, 3, 4 or 8 bits, got 5"));
    EXPECT_THAT(refusal_of(problem_of(16, 128)), HasSubstr("which cuBLAS multiplies"));
    EXPECT_THAT(refusal_of(problem_of(4, 8)), HasSubstr("multiple of 16 columns, or -1"));
    EXPECT_THAT(refusal_of(problem_of(4, 100)), HasSubstr("got 100"));
    EXPECT_THAT(refusal_of(problem_of(4, 128, 0)), HasSubstr("got 0, 4096, 4096"));
  }
  // One group a row, whatever its size is called.
  EXPECT_EQ(matmul_refusal(problem_of(4, 5000)), "");
}

}  // namespace
}  // namespace gptqb::kernels
