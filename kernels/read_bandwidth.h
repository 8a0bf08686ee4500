// A plain read of memory: how fast anything can read on this device. What is read is folded into
// one word, so that no load can be left out.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// Exclusive or of all 32-bit words of `data`, aligned to 16 bytes, `bytes` a multiple of 16; in the
// calling thread.
uint32_t fold_words_cpu(const void* data, int64_t bytes);

// How many partial results fold_words_cuda writes on the current device.
int64_t fold_words_partials();

// Queued on `stream` (a cudaStream_t): exclusive ors of parts of `data` into `partials`
// [fold_words_partials()], whose own exclusive or is that of all words. Pointers of the current
// device, `data` aligned to 16 bytes, `bytes` a multiple of 16. Throws Error if the launch fails,
// or in a build without CUDA.
void fold_words_cuda(const void* data, int64_t bytes, uint32_t* partials, void* stream);

}  // namespace gptqb::kernels
