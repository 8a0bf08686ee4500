#include "runner/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace gptqb {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(EnvironmentTest, SaysWhatMadeTheNumbers) {
  const Environment environment = capture_environment("cpu", {"gptq-bench", "run", "x.yaml"});
  EXPECT_EQ(environment.build, build_info());
  EXPECT_FALSE(environment.build.version.empty());
  EXPECT_FALSE(environment.build.commit.empty());
  EXPECT_THAT(environment.time, MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9:]{8}Z"));
  EXPECT_THAT(environment.os, HasSubstr("Linux"));
  EXPECT_GE(environment.cores, 1);
  EXPECT_LE(environment.cores, static_cast<int64_t>(std::thread::hardware_concurrency()));
  EXPECT_GE(environment.threads, 1);
  EXPECT_GT(environment.memory_bytes, int64_t{64} << 20);
  EXPECT_EQ(environment.gpu, "");
  EXPECT_EQ(environment.argv.size(), 3u);
  EXPECT_TRUE(environment.libraries.contains("torch"));
  EXPECT_TRUE(environment.libraries.contains("nlohmann_json"));
}

TEST(EnvironmentTest, TheBuildIsIdentifiedOnce) {
  EXPECT_THAT(build_id(), testing::AnyOf(MatchesRegex("executable [0-9a-f]{64}"),
                                         MatchesRegex("commit [0-9a-f]+ tools [0-9a-f]{16}")));
  EXPECT_EQ(build_id(), build_id());
}

TEST(EnvironmentTest, VersionLineNamesCommitCompilerAndCuda) {
  BuildInfo build{"0.1.0", "0123456789abcdef", true, "GNU-12.2.0", "-O3", "2.11.0", "", ""};
  EXPECT_EQ(version_line(build),
            "gptq-bench 0.1.0 (commit 0123456789ab with changes, GNU-12.2.0, torch 2.11.0, without "
            "CUDA)");
  build.cuda = "12.8.93";
  build.cuda_architectures = "80 90a-real";
  build.dirty = false;
  build.commit = "unknown";
  EXPECT_EQ(
      version_line(build),
      "gptq-bench 0.1.0 (commit unknown, GNU-12.2.0, torch 2.11.0, CUDA 12.8.93 for 80 90a-real)");
}

TEST(EnvironmentTest, DeviceLineNamesGpuOrProcessor) {
  Environment environment;
  environment.cpu = "Some CPU";
  environment.threads = 2;
  EXPECT_EQ(device_line(environment), "Some CPU (2 threads)");
  environment.gpu = "NVIDIA H200";
  environment.gpu_driver = "570.86.15";
  environment.gpu_runtime = "12.8";
  environment.gpu_capability = "9.0";
  EXPECT_EQ(device_line(environment), "NVIDIA H200 (driver 570.86.15, CUDA 12.8, capability 9.0)");
}

TEST(EnvironmentTest, MemoryOfThisProcess) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
}

}  // namespace
}  // namespace gptqb
