#include "runner/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/atomic_file.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

BuildInfo cuda_build() {
  return {"0.1.0",       "0123456789abcdef", false,  "GNU-12",
          "Release -O3", "2.11.0",           "12.8", "80 90a-real"};
}

TEST(DoctorTest, ABuildWithoutCudaHasNoGpuAndThatIsNoFault) {
  BuildInfo build = cuda_build();
  build.cuda = "";
  kernels::CudaInfo cuda;
  cuda.unavailable = "built without CUDA";
  EXPECT_EQ(doctor_text(check_gpus(build, cuda)), "--  GPU: none: built without CUDA\n");
  cuda.unavailable = "no driver";
  EXPECT_EQ(doctor_text(check_gpus(cuda_build(), cuda)), "!!  GPU: none: no driver\n");
}

// Faults BI-01: the card and what the build holds code for stand side by side.
TEST(DoctorTest, AGpuIsShownBesideTheArchitecturesOfTheBuild) {
  kernels::CudaInfo cuda;
  cuda.driver_version = 12080;
  cuda.runtime_version = 12080;
  kernels::DeviceInfo device;
  device.name = "NVIDIA H200";
  device.capability_major = 9;
  device.memory_total = int64_t{140} << 30;
  device.memory_free = int64_t{139} << 30;
  cuda.devices = {device};
  device.index = 1;
  device.name = "Old card";
  device.capability_major = 6;
  device.capability_minor = 1;
  device.unusable = "no code for architecture 61";
  cuda.devices.push_back(device);
  EXPECT_EQ(
      doctor_text(check_gpus(cuda_build(), cuda)),
      "ok  CUDA: driver supports 12.8, runtime 12.8, code for 80 90a-real\n"
      "ok  GPU 0: NVIDIA H200, architecture 90, 139.0 GiB of 140.0 GiB free\n"
      "!!  GPU 1: Old card, architecture 61, 139.0 GiB of 140.0 GiB free: no code for architecture "
      "61\n");
}

TEST(DoctorTest, AnUnoptimizedBuildIsAFault) {
  BuildInfo build = cuda_build();
  build.flags = "Debug -g";
  EXPECT_THAT(doctor_text(check_build(build)),
              HasSubstr("!!  build: compiled without optimization"));
  EXPECT_THAT(doctor_text(check_build(cuda_build())), StartsWith("ok  build: gptq-bench 0.1.0"));
}

TEST(DoctorTest, MoreThreadsThanCoresIsAFault) {
  Environment environment;
  environment.cpu = "CPU";
  environment.cores = 2;
  environment.threads = 64;
  EXPECT_THAT(doctor_text(check_machine(environment)),
              HasSubstr("!!  processor: CPU, 2 cores usable, 64 threads: more threads than cores"));
}

TEST(DoctorTest, DataFilesAreFoundUnderAnySpelling) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "wikitext-2-raw" / "wiki.test.raw.xz", "x");
  const std::string text = doctor_text(check_data(folder.path()));
  EXPECT_THAT(text,
              HasSubstr("ok  wikitext2: " +
                        (folder.path() / "wikitext-2-raw" / "wiki.test.raw.xz").string() + "\n"));
  EXPECT_THAT(text,
              HasSubstr("--  ptb-new: ptb/ptb.test.txt is not there (plain, .gz, .xz or .zst)\n"));
  EXPECT_THAT(doctor_text(check_data("")), StartsWith("--  data: GPTQ_BENCH_DATA is not set"));
  EXPECT_THAT(doctor_text(check_data("/nonexistent")),
              StartsWith("!!  data: GPTQ_BENCH_DATA is /non"));
}

TEST(DoctorTest, ModelsAreFoldersWithAConfig) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "b" / "config.json", "{}");
  write_file_atomically(folder.path() / "a" / "config.json", "{}");
  write_file_atomically(folder.path() / "c" / "other", "{}");
  EXPECT_EQ(doctor_text(check_models(folder.path())),
            "ok  models: " + folder.path().string() + ": a, b\n");
}

TEST(DoctorTest, ResultsMustBeWritableAndNothingStays) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(
      doctor_text(check_output(folder.path() / "results")),
      StartsWith("ok  results: " + (folder.path() / "results").string() + " can be written"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
  write_file_atomically(folder.path() / "file", "x");
  EXPECT_THAT(doctor_text(check_output(folder.path() / "file")), StartsWith("!!  results: ["));
}

TEST(DoctorTest, TheWholeReportHasALineForEachTopic) {
  const test::TemporaryFolder folder;
  const std::string report = doctor_report({"", "", folder.path()});
  for (const char* topic : {"  build: ", "GPU", "  system: ", "  processor: ", "  memory: ",
                            "  data: ", "  models: ", "  results: "})
    EXPECT_THAT(report, HasSubstr(topic));
}

}  // namespace
}  // namespace gptqb
