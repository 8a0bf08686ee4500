#include "kernels/matmul.h"

#include "kernels/device_info.h"

namespace gptqb::kernels {

#define GPTQB_KERNEL(name, summary) std::unique_ptr<MatmulKernel> make_##name();
#define GPTQB_CUDA_KERNEL GPTQB_KERNEL
#include "kernels/kernels.def"
#undef GPTQB_KERNEL
#undef GPTQB_CUDA_KERNEL

const Registry<MatmulFactory>& matmul_kernels() {
  static const Registry<MatmulFactory> registry("kernel", {
#define GPTQB_KERNEL(name, summary) {#name, summary, make_##name, ""},
#define GPTQB_CUDA_KERNEL(name, summary) {#name, summary, make_##name, built_without_cuda()},
#include "kernels/kernels.def"
#undef GPTQB_KERNEL
#undef GPTQB_CUDA_KERNEL
                                                          });
  return registry;
}

}  // namespace gptqb::kernels
