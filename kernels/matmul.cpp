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

void check_alignment(const MatmulArguments& arguments) {
  constexpr uintptr_t kAlignment = 16;
  const struct {
    const char* name;
    const void* pointer;
  } pointers[] = {{"x", arguments.x},
                  {"bias", arguments.bias},
                  {"y", arguments.y},
                  {"workspace", arguments.workspace},
                  {"codes", arguments.weight.codes},
                  {"scales", arguments.weight.scales},
                  {"zeros", arguments.weight.zeros},
                  {"input order", arguments.weight.input_order}};
  for (const auto& [name, pointer] : pointers)
    if (const auto rest = reinterpret_cast<uintptr_t>(pointer) % kAlignment; rest != 0)
      throw Error(name, "expected memory aligned to 16 bytes, got a pointer " +
                            std::to_string(rest) + " bytes past. Copy it, or pass a whole tensor");
}

}  // namespace gptqb::kernels
