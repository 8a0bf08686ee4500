// How fast this device reads memory, measured: the ceiling that other readings are held against.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "kernels/timing.h"

namespace gptqb {

// What a plain read of `bytes` reads: whole MiB.
int64_t plain_read_bytes(int64_t bytes);

// A call that reads plain_read_bytes(bytes) of memory of `device` by all threads, its result
// checked once before this returns. `stream`: a cudaStream_t, null on the CPU. Throws Error if the
// result is wrong.
kernels::TimedCall plain_read(at::Device device, int64_t bytes, void* stream);

// Bytes a second, the median of five repetitions of such a call. `bytes` should be several times
// the last cache.
double read_bytes_per_second(at::Device device, int64_t bytes = int64_t{1} << 30);

}  // namespace gptqb
