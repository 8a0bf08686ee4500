#include "kernels/device_info.h"

namespace gptqb::kernels {

std::string cuda_version_text(int64_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace gptqb::kernels
