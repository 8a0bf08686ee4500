// A linear that is computed from its packed codes, as serving does it: kernels/matmul.h for
// tensors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/matmul.h"
#include "methods/packed_copies.h"
#include "methods/quant_config.h"
#include "methods/quantized_linear.h"

namespace gptqb {

// Codes, grids and order of columns in a layout that kernels read. A copy shares its memory.
class PackedLinear {
 public:
  // Packs on the host; `linear` on the CPU. Throws Error if it cannot be packed so: ternary codes,
  // groups of no multiple of 16 columns, a scale that float16 does not hold.
  PackedLinear(const QuantizedLinear& linear, std::string_view layout);

  // A linear of the rows of all `parts`, which lie in `layout` on one device and read the same
  // inputs. Null where they are packed too differently for one product.
  static std::optional<PackedLinear> stacked(std::string_view layout,
                                             const std::vector<const PackedLinear*>& parts);

  PackedLinear to(at::Device device) const;
  kernels::PackedView view() const { return memory_.view(0); }

 private:
  explicit PackedLinear(PackedCopies memory) : memory_(std::move(memory)) {}

  PackedCopies memory_;
};

// The products of one device: which kernel runs each, and what kernels share. Of one thread and one
// stream at a time.
class PackedProducts {
 public:
  // `type`: float16 or bfloat16. Throws Error for another type, or if there is no such device.
  PackedProducts(at::Device device, at::ScalarType type);

  // The kernel for `m` rows of activations times weights [out, in] of such codes. Throws Error with
  // the reason if there is none.
  std::string kernel_for(int64_t m, int64_t out, int64_t in, const QuantConfig& quant) const;

  // The layout of the kernels that are chosen on this device.
  std::string_view layout() const;

  // x W^T + bias for `x` [.., in]: [.., out], in the type and on the device of this object. `bias`
  // [out] may be undefined.
  at::Tensor product(const PackedLinear& linear, const at::Tensor& x, const at::Tensor& bias);

  // Products so far, by kernel; what is recorded and replayed counts once.
  const std::map<std::string, int64_t>& launched() const { return launched_; }

 private:
  const kernels::MatmulKernel& kernel(const std::string& name);
  void* workspace(int64_t bytes);

  at::Device device_;
  at::ScalarType type_;
  kernels::MatmulDevice matmul_device_;
  std::map<std::string, std::unique_ptr<kernels::MatmulKernel>> kernels_;
  at::Tensor workspace_;
  // Workspaces that became too small: recorded products (methods/graph_replay.h) still use them.
  std::vector<at::Tensor> outgrown_;
  std::map<std::string, int64_t> launched_;
};

}  // namespace gptqb
