#include "kernels/device_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

TEST(DeviceInfo, VersionText) {
  EXPECT_EQ(cuda_version_text(12080), "12.8");
  EXPECT_EQ(cuda_version_text(13000), "13.0");
}

// Holds on every machine and build: either there are devices, or a line says why there are none
// (BI-04).
TEST(DeviceInfo, SaysWhatIsThereOrWhyNothingIs) {
  const auto info = cuda_info();
  EXPECT_EQ(info.devices.empty(), !info.unavailable.empty());
  EXPECT_EQ(info.unavailable.find('\n'), std::string::npos);
  for (const auto& device : info.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_EQ(device.unusable.find('\n'), std::string::npos);
    if (device.unusable.empty()) {
      EXPECT_GT(device.memory_total, 0);
    }
  }
}

TEST(DeviceInfo, ABuildWithoutCudaRefusesKernelsByName) {
  if (cuda_info().unavailable.find("built without CUDA") == std::string::npos) {
    SUCCEED();
    return;
  }
  EXPECT_THAT([] { sweep_cuda(SweepChunk<float>{}, nullptr); },
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  ::testing::HasSubstr("[sweep_cuda]"), ::testing::HasSubstr("built without CUDA"),
                  ::testing::HasSubstr("-DGPTQ_BENCH_CUDA=ON"))));
}

}  // namespace
}  // namespace gptqb::kernels
