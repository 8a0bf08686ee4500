// The CUDA half of this folder in a build without CUDA: the same functions, which say so.
#include "common/error.h"
#include "kernels/decode.h"
#include "kernels/device_info.h"
#include "kernels/forward.h"
#include "kernels/grid_fit.h"
#include "kernels/matmul.h"
#include "kernels/obq.h"
#include "kernels/published_block.h"
#include "kernels/published_sums.h"
#include "kernels/read_bandwidth.h"
#include "kernels/second_moments.h"
#include "kernels/solver.h"
#include "kernels/tf32_split.h"
#include "kernels/timing.h"
#include "kernels/transpose.h"
#include "kernels/unit_inverse.h"
#include "kernels/word_hash.h"

namespace gptqb::kernels {
namespace {

constexpr const char* kReason =
    "built without CUDA; configure with -DGPTQ_BENCH_CUDA=ON where nvcc is installed";

[[noreturn]] void refuse(const char* what) {
  throw Error(what, std::string("expected a build with CUDA, got one ") + kReason);
}

}  // namespace

CudaInfo cuda_info() {
  CudaInfo info;
  info.unavailable = kReason;
  return info;
}

std::string built_without_cuda() { return kReason; }

std::string pci_bus_id(int64_t) { return ""; }

void add_norm_cuda(const AddNorm&, void*) { refuse("add_norm_cuda"); }
void add_to_running_sum_cuda(const RunningSum&, void*) { refuse("add_to_running_sum_cuda"); }
void bloom_gelu_cuda(const BloomGelu&, void*) { refuse("bloom_gelu_cuda"); }
void causal_softmax_cuda(const CausalSoftmax&, void*) { refuse("causal_softmax_cuda"); }
int64_t cuda_cache_bytes() { refuse("cuda_cache_bytes"); }
void decode_attention_cuda(const DecodeAttention&, void*) { refuse("decode_attention_cuda"); }
int64_t decode_attention_workspace(int64_t, int64_t, int64_t) {
  refuse("decode_attention_workspace");
}
void dot_product_cuda(const DotProduct&, void*) { refuse("dot_product_cuda"); }
bool has_second_moments_cuda() { return false; }
void fit_grids_cuda(const GridFit&, void*) { refuse("fit_grids_cuda"); }
void fold_words_cuda(const void*, int64_t, uint32_t*, void*) { refuse("fold_words_cuda"); }
int64_t fold_words_partials() { refuse("fold_words_partials"); }
void hash_words_cuda(const WordHash&, void*) { refuse("hash_words_cuda"); }
void invert_unit_cuda(const UnitInverse&, void*) { refuse("invert_unit_cuda"); }
void largest_place_cuda(const LargestPlace&, void*) { refuse("largest_place_cuda"); }
void obq_cuda(const ObqRows<float>&, int64_t, void*, void*) { refuse("obq_cuda"); }
void obq_cuda(const ObqRows<double>&, int64_t, void*, void*) { refuse("obq_cuda"); }
void published_block_cuda(const PublishedBlock&, void*) { refuse("published_block_cuda"); }
void put_columns_cuda(const Transpose<uint8_t>&, void*) { refuse("put_columns_cuda"); }
void relu_cuda(const Relu&, void*) { refuse("relu_cuda"); }
void rms_norm_cuda(const RmsNorm&, void*) { refuse("rms_norm_cuda"); }
void rotate_cuda(const Rotate&, void*) { refuse("rotate_cuda"); }
void scale_inputs_cuda(const ScaledInputs&, void*) { refuse("scale_inputs_cuda"); }
void second_moments_cuda(const SecondMoments&, void*) { refuse("second_moments_cuda"); }
int64_t second_moments_workspace(int64_t, int64_t, int64_t) { refuse("second_moments_workspace"); }
void silu_multiply_cuda(const SiluMultiply&, void*) { refuse("silu_multiply_cuda"); }
void split_tf32_cuda(const Tf32Split&, void*) { refuse("split_tf32_cuda"); }
void sweep_cuda(const SweepChunk<float>&, void*) { refuse("sweep_cuda"); }
void sweep_cuda(const SweepChunk<double>&, void*) { refuse("sweep_cuda"); }
void take_columns_cuda(const Transpose<float>&, void*) { refuse("take_columns_cuda"); }
std::unique_ptr<RepetitionTimer> time_on_cuda(TimedCall, const TimingOptions&, void*) {
  refuse("time_on_cuda");
}

#define GPTQB_KERNEL(name, summary)
#define GPTQB_CUDA_KERNEL(name, summary) \
  std::unique_ptr<MatmulKernel> make_##name() { refuse(#name); }
#include "kernels/kernels.def"
#undef GPTQB_KERNEL
#undef GPTQB_CUDA_KERNEL

}  // namespace gptqb::kernels
