// Activations times quantized weights: what all kernels for it have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/registry.h"
#include "kernels/half_type.h"
#include "kernels/host_device.h"
#include "kernels/packed_weight.h"

namespace gptqb::kernels {

// `bits` of ternary codes, which every kernel refuses with the reason; QuantConfig::kTernary too.
constexpr int64_t kTernaryBits = 0;

// y[m, n] = x[m, k] w[n, k]^T (+ bias[n]).
struct MatmulProblem {
  int64_t m = 1;
  int64_t n = 0;
  int64_t k = 0;
  int64_t bits = 4;         // 2, 3, 4, 8; 16: weights as they are, for comparison; kTernaryBits
  int64_t group_size = -1;  // -1: one group a row
  bool symmetric = true;
  bool act_order = false;  // columns of the weight are not in the order of the activations
  bool bias = false;
  HalfType type = HalfType::kFloat16;  // of x, y and bias
};

// What selection asks of a device; a plain value, so that selection is tested without one.
struct MatmulDevice {
  bool cuda = false;
  int64_t capability = 0;       // 90 is 9.0
  int64_t multiprocessors = 0;  // 1 or more where work is divided
  int64_t shared_bytes = 0;     // that a block may take; 0: unknown, taken to be enough
};

// Of a workspace: where thread blocks tell each other what is done.
constexpr int64_t kMatmulFlagBytes = 16384;

// Pointers on the kernel's device, 16-byte aligned. Nothing is written but y and the workspace.
struct MatmulArguments {
  int64_t m = 1;
  HalfType type = HalfType::kFloat16;
  // Reading may begin while earlier kernels of the stream still run: not written by the last kernel
  // before in the stream that is none of these, nor while this one waits. What a copy wrote, or
  // what the host has waited for, is fine.
  PackedView weight;
  const void* x = nullptr;     // [m, k], rows one after the other
  const void* bias = nullptr;  // [n] or null
  void* y = nullptr;           // [m, n]
  // workspace_bytes(), of one launch at a time. The first kMatmulFlagBytes must be zero and are
  // zero again afterwards; the rest is used up.
  void* workspace = nullptr;
};

// The workspace past the flags.
GPTQB_HOST_DEVICE inline char* scratch_of(const MatmulArguments& arguments) {
  return static_cast<char*>(arguments.workspace) + kMatmulFlagBytes;
}

// Throws Error, which names the pointer, unless all lie at multiples of 16 bytes: for kernels that
// read or write 16 bytes at once, where a GPU would stop for good.
void check_alignment(const MatmulArguments& arguments);

// One way to compute it. Stateless; sums are float32 or wider; the same inputs give the same bits.
// Results for activations that are not finite are not finite, but which of NaN and infinity they
// are is the kernel's own: zero points may be taken off sums rather than codes.
class MatmulKernel {
 public:
  virtual ~MatmulKernel() = default;

  // The layout that `MatmulArguments::weight` must have: "tiles" (kernels/tile_layout.h) or "rows"
  // (kernels/row_layout.h).
  virtual std::string_view layout() const = 0;

  // Empty, or one line why this kernel cannot run `problem` on `device`.
  virtual std::string refusal(const MatmulProblem& problem, const MatmulDevice& device) const = 0;

  // For `m` rows of activations times a weight of this shape.
  virtual int64_t workspace_bytes(const PackedShape& weight, int64_t m,
                                  const MatmulDevice& device) const = 0;

  // Queued on `stream` (a cudaStream_t; null and done at return for a CPU kernel). Throws Error if
  // the launch fails.
  virtual void launch(const MatmulArguments& arguments, void* stream) const = 0;
};

using MatmulFactory = std::unique_ptr<MatmulKernel> (*)();

// All kernels of kernels.def; entries of a build without CUDA say so in `unavailable`.
const Registry<MatmulFactory>& matmul_kernels();

// The kernel that runs a problem, and why it was chosen.
struct MatmulChoice {
  std::string kernel;
  std::string reason;
};

// A pure function of its arguments; whether this build has the kernel is matmul_kernels()' to say.
// `wanted` empty: the fastest by measurement. Otherwise that kernel, or Error with its reason if it
// cannot run: never another one.
MatmulChoice choose_matmul(const MatmulProblem& problem, const MatmulDevice& device,
                           const std::string& wanted = "");

}  // namespace gptqb::kernels
