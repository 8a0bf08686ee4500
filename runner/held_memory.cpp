#include "runner/held_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <malloc.h>

#include "common/proc_bytes.h"
#include "kernels/device_info.h"

namespace gptqb {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats allocator_stats(at::Device device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

int64_t bytes_now(at::Device device) {
  if (!device.is_cuda()) return proc_bytes("/proc/self/status", "RssAnon");
  return allocator_stats(device).allocated_bytes[kAll].current;
}

}  // namespace

int64_t held_bytes(at::Device device, const std::function<std::vector<at::Tensor>()>& make) {
  // What was freed and is kept for later would be taken without a trace, and counted without use.
  if (device.is_cpu()) ::malloc_trim(0);
  if (device.is_cuda()) at::empty({1}, at::TensorOptions(device));  // makes its allocator known
  const int64_t before = bytes_now(device);
  const std::vector<at::Tensor> held = make();
  if (device.is_cpu()) ::malloc_trim(0);
  return bytes_now(device) - before;
}

int64_t free_bytes(at::Device device) {
  if (!device.is_cuda()) return proc_bytes("/proc/meminfo", "MemAvailable");
  at::empty({1}, at::TensorOptions(device));  // makes its allocator known
  const auto stats = allocator_stats(device);
  const int64_t kept = stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
  for (const kernels::DeviceInfo& info : kernels::cuda_info().devices)
    if (info.index == device.index()) return info.memory_free + kept;
  return 0;
}

}  // namespace gptqb
