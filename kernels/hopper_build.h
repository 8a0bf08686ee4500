// Whether a file is built for Hopper's own instructions (compute capability 9.0a). For files that
// kernels/CMakeLists.txt defines GPTQB_SM90A for.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace gptqb::kernels {

#ifdef GPTQB_SM90A
constexpr bool kHopperBuild = true;
#else
constexpr bool kHopperBuild = false;
#endif

// Throws Error unless it is.
static inline void require_hopper_build(std::string_view kernel) {
  if (!kHopperBuild)
    throw Error("kernel " + std::string(kernel),
                "expected a build with CUDA architecture 90a, got one without. Add it to "
                "CMAKE_CUDA_ARCHITECTURES");
}

}  // namespace gptqb::kernels
