#include "eval/plain_read.h"

#include <ATen/Parallel.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/statistics.h"
#include "kernels/read_bandwidth.h"
#include "methods/device_stream.h"

namespace gptqb {
namespace {

constexpr int64_t kPart = int64_t{1} << 20;

// Parts by all threads, folded together.
uint32_t fold(const void* data, int64_t bytes) {
  const int64_t parts = bytes / kPart;
  std::vector<uint32_t> folded(static_cast<size_t>(parts));
  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      folded[static_cast<size_t>(part)] =
          kernels::fold_words_cpu(static_cast<const char*>(data) + part * kPart, kPart);
  });
  return kernels::fold_words_cpu(folded.data(), parts * 4);
}

}  // namespace

int64_t plain_read_bytes(int64_t bytes) { return (bytes + kPart - 1) / kPart * kPart; }

kernels::TimedCall plain_read(at::Device device, int64_t wanted, void* stream) {
  const int64_t bytes = plain_read_bytes(wanted);
  const auto host = at::empty({bytes / 8}, at::kLong);
  auto* const words = host.data_ptr<int64_t>();
  at::parallel_for(0, bytes / 8, kPart, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      words[i] = static_cast<int64_t>(static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15ULL);
  });
  uint32_t expected = 0;
  for (int64_t i = 0; i < bytes / 8; ++i)
    expected ^= static_cast<uint32_t>(words[i]) ^
                static_cast<uint32_t>(static_cast<uint64_t>(words[i]) >> 32);
  const auto check = [&](uint32_t got) {
    if (got != expected)
      throw Error("ceiling/read", "expected the exclusive or of all words to be " +
                                      std::to_string(expected) + ", got " + std::to_string(got));
  };
  if (device.is_cpu()) {
    check(fold(host.const_data_ptr(), bytes));
    return [host, bytes, seen = std::make_shared<uint32_t>(0)](int64_t, void*) {
      // Kept where the compiler cannot drop it.
      *static_cast<volatile uint32_t*>(seen.get()) = fold(host.const_data_ptr(), bytes);
    };
  }
  const auto data = host.to(device);
  const auto partials = at::empty({kernels::fold_words_partials()},
                                  at::TensorOptions().device(device).dtype(at::kInt));
  kernels::TimedCall call = [data, partials, bytes](int64_t, void* on) {
    kernels::fold_words_cuda(data.const_data_ptr(), bytes,
                             reinterpret_cast<uint32_t*>(partials.data_ptr<int32_t>()), on);
  };
  call(0, stream);
  const auto folded = partials.cpu();
  check(kernels::fold_words_cpu(folded.const_data_ptr(), folded.numel() * 4));
  return call;
}

double read_bytes_per_second(at::Device device, int64_t bytes) {
  std::optional<SideStream> stream;  // a graph cannot be captured on the default one
  if (device.is_cuda()) stream.emplace(device);
  void* const handle = stream ? stream->handle() : nullptr;
  const auto timer = device.is_cuda()
                         ? kernels::time_on_cuda(plain_read(device, bytes, handle), {}, handle)
                         : kernels::time_on_cpu(plain_read(device, bytes, handle), {});
  std::vector<double> seconds;
  for (int repetition = 0; repetition < 5; ++repetition) seconds.push_back(timer->run());
  return static_cast<double>(plain_read_bytes(bytes)) / quantile(seconds, 0.5);
}

}  // namespace gptqb
