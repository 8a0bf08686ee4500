// How much memory quantizing and evaluating a model takes, from shapes alone and before any work,
// and what is kept where so that it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gptqb {

// Of a model, without reading a weight.
struct ModelSizes {
  struct Stage {
    int64_t in = 0;             // features that its linears read
    std::vector<int64_t> outs;  // features that each of them puts out
  };
  int64_t blocks = 0;
  int64_t element_bytes = 0;           // of the model's dtype
  std::vector<int64_t> block_tensors;  // elements of each tensor of one block
  std::vector<Stage> stages;           // of one block; the first reads the hidden width
  int64_t end_elements = 0;            // of all tensors outside the blocks
  int64_t head_elements = 0;           // those of them that only logits need
  int64_t vocabulary = 0;
  // Of what the linears of a stage put out, how often it exists while tensor operations compute its
  // activation (a kernel of 16 bits on a GPU works in place).
  int64_t activation_copies = 1;
  // Attention scores that are held whole, at most so many at once (of one head at least); 0: fused.
  int64_t scores_at_once = 0;
  // Features a token that an attention which is fused on a GPU, in 16 bits alone, holds beside
  // queries, keys, values and what they come to; 0: it is not.
  int64_t fused_attention_features = 0;
  int64_t heads = 0;
  bool mapped = false;  // weights are views of files, whose pages count as host memory
};

// What is to be done with it.
struct MemoryTask {
  bool on_gpu = false;
  int64_t program_bytes = 0;  // resident on the host before the work begins

  bool quantizes = false;
  int64_t calibration_tokens = 0;
  int64_t heldout_tokens = 0;
  int64_t tokens_per_pass = 0;   // run through a block together
  int64_t seqlen = 0;            // of each of their windows
  bool published_sums = false;   // of H, a product a window (Accumulation::kPublished)
  bool true_sequential = false;  // stage by stage on kept intermediates
  bool dense_inputs = false;     // a dense stream beside the quantized one
  bool wide_compute = false;     // solves in float64
  bool quantizes_head = false;
  bool saves_blocks = true;  // finished blocks are written, whether or not memory is short
  int64_t bits = 8;          // of the codes
  int64_t group_size = -1;

  bool evaluates = false;
  int64_t evaluation_tokens = 0;  // of the longest evaluation, where its length is known
  int64_t evaluation_tokens_per_pass = 0;
};

// Bytes; empty: no limit.
struct MemoryLimits {
  std::optional<int64_t> device;
  std::optional<int64_t> host;
};

// Where codes of finished blocks are while later blocks are worked on.
enum class FinishedBlocks { kInMemory, kOnDisk, kNowhere };

struct MemoryPlan {
  using Needs = std::vector<std::pair<std::string, int64_t>>;  // what for, bytes

  // At the peak. On the CPU all is on the host.
  Needs device;
  Needs host;
  bool activations_on_host = false;
  // Nowhere: nothing reads them again.
  FinishedBlocks finished = FinishedBlocks::kInMemory;

  int64_t device_bytes() const;
  int64_t host_bytes() const;
  int64_t activation_bytes = 0;  // hidden states that wait between blocks

  // "device 9.4 GiB (activations 4.0, block 0.4, ...), host 5.1 GiB (...), activations on the
  // host".
  std::string text() const;
};

// The plan with most in fast memory that fits `limits`: hidden states on the device, else in host
// memory; codes of finished blocks in memory, else on disk. On the CPU the smaller limit holds for
// the sum, for device memory is host memory there. Workspaces are estimates on the high side.
// A dense model that is opened beside the quantized one for comparison is not counted. Throws Error
// naming limits.device_memory or limits.host_memory, with what is needed, if no plan fits.
MemoryPlan plan_memory(const ModelSizes& model, const MemoryTask& task, const MemoryLimits& limits);

}  // namespace gptqb
