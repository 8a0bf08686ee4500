// Which instruction set a CPU kernel should use: one body is compiled for each, and the best that
// this processor has is chosen at the first call.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define GPTQB_X86_LEVELS 1
#else
#define GPTQB_X86_LEVELS 0
#endif

namespace gptqb::kernels {

enum class CpuLevel { kBaseline, kAvx2, kAvx512 };

inline CpuLevel cpu_level() {
#if GPTQB_X86_LEVELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return CpuLevel::kAvx512;
  if (__builtin_cpu_supports("x86-64-v3")) return CpuLevel::kAvx2;
#endif
  return CpuLevel::kBaseline;
}

}  // namespace gptqb::kernels
