// Wall time of work that is done when it returns.
#pragma once

#include <chrono>

namespace gptqb {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace gptqb
