// What the block driver needs of a model: nothing about architectures, only blocks, stages and
// linears.
//
// A block is run stage by stage on kept intermediates. The linears of a stage read the same input;
// a stage is q,k,v / o / gate,up / down of a LLaMA block. Running stage k applies its linears and
// everything up to the input of stage k+1, so that statistics, solving and the forward pass share
// one pass over the block.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "methods/kept_linear.h"
#include "methods/linear_replacement.h"
#include "methods/memory_plan.h"

namespace gptqb {

// Sequences that run through a block together where nothing asks for another number: about 32k
// tokens keep a GPU busy with a small model and take a few GB of a large one's activations; a CPU
// gains nothing from more than one long sequence.
inline int64_t sequences_per_pass(at::Device device, int64_t seqlen) {
  const int64_t tokens = device.is_cuda() ? 32768 : 2048;
  return std::max<int64_t>(1, tokens / std::max<int64_t>(1, seqlen));
}

// Linears that read the same input, by their names within a block ("self_attn.q_proj").
struct Stage {
  std::vector<std::string> linears;
};

// A chunk of sequences somewhere inside a block. All on the model's device, in the model's dtype.
struct BlockActivations {
  at::Tensor residual;  // [sequences, seqlen, hidden]; after the last stage: the block's output
  at::Tensor input;     // [sequences, seqlen, in_features] of the next stage's linears; undefined
                        // after the last
};

// A place where scales can move without changing what a block computes (Lin et al. 2023, AWQ): the
// inputs of `stage`'s linears are divided by s, column by column, where `producer`, which makes
// them, divides what it puts out and the linears' columns are multiplied.
struct ScaleMove {
  size_t stage = 0;
  std::string producer;  // a norm, a linear or an activation of the block
  bool producer_is_linear = false;
  // The linears are judged by what they put out together: the sum that stages `stage` to
  // `judged_through` add to the residual (attention or MLP output). A stage of one linear that is
  // judged through itself: by what that linear puts out.
  size_t judged_through = 0;
  // Where llm-awq does something of its own, which its protocol asks for: it leaves the move out,
  // or it hands the linears' input to the whole block, first norm included, and judges by what
  // leaves the block.
  bool not_in_llm_awq = false;
  bool llm_awq_runs_block = false;
};

// Where scales may move in a block, and which linears only make attention scores: their clipping is
// not searched, since the error of a score says little about that of the output.
struct ScalePlan {
  std::vector<ScaleMove> moves;
  std::vector<std::string> score_linears;
};

// The ends of a model, outside its blocks: they stay dense unless they are asked for.
enum class ModelEnd { kEmbedding, kHead };

// Both are matrices [vocabulary, width]: the rows an id looks up, and the rows that give logits.
struct ModelExtras {
  std::string embedding;  // full name: "model.embed_tokens"
  std::string head;       // "lm_head"
  std::vector<int64_t> embedding_shape;
  std::vector<int64_t> head_shape;
  bool tied_head = false;  // the head computes with the embedding's weights
};

// Finished blocks, for a model that does not keep what their linears were replaced with.
class ReplacedShelf {
 public:
  virtual ~ReplacedShelf() = default;
  // By name within the block. Throws Error if the block is not there.
  virtual std::map<std::string, KeptLinear> linears(int64_t block) = 0;
};

class BlockModel {
 public:
  virtual ~BlockModel() = default;

  virtual int64_t block_count() const = 0;
  // "model.layers.3": full layer names are this, a dot, and the linear's name.
  virtual std::string block_name(int64_t block) const = 0;
  virtual const std::vector<Stage>& stages() const = 0;
  virtual at::ScalarType dtype() const = 0;
  virtual at::Device device() const = 0;

  // Hidden states [sequences, seqlen, hidden] that enter block 0. `ids` i64 [sequences, seqlen] on
  // any device; each sequence starts at position 0. Throws Error if an id is outside the vocabulary
  // or seqlen exceeds the positions the model has.
  virtual at::Tensor embed(const at::Tensor& ids) = 0;

  // Brings the weights of `block` to the device (replaced ones included) and drops those of the
  // block before. At most one block is on the device.
  virtual void load_block(int64_t block) = 0;
  virtual void release_block() = 0;
  // Seconds spent on reading or making weights so far, by whichever thread: more than
  // load_block took where a block was read while another was computed.
  virtual double read_busy_seconds() const { return 0; }

  // Of the loaded block: the input of its first stage, and one stage onward.
  virtual BlockActivations begin(const at::Tensor& hidden) = 0;
  virtual void run_stage(size_t stage, BlockActivations& activations) = 0;

  // Whether begin and run_stage of the loaded block, once run on a shape, launch the same kernels
  // on the same weights for each input of that shape and never wait for the device, so that they
  // may be recorded (methods/graph_replay.h) until the block is replaced in or released.
  virtual bool recordable() const { return false; }

  // Of the loaded block: a linear's weight [out, in] in the model's dtype on its device, as loaded
  // or replaced.
  virtual at::Tensor weight(const std::string& linear) const = 0;

  // From now on `linear` of the loaded block computes with `replacement`, its weights in the
  // model's dtype (bias and the rest of the layer unchanged); it stays replaced when the block is
  // released and loaded again.
  virtual void replace(const std::string& linear, const LinearReplacement& replacement) = 0;
  // From now on the model may let a block's replacements go when the block is released: loaded
  // again, the block takes them from `shelf`. Null: replaced blocks are not loaded again, which
  // load_block then refuses.
  virtual void leave_replaced_to(ReplacedShelf*) {}

  // The second interface, for methods that move scales between linears. Empty: the architecture has
  // no place for them.
  virtual ScalePlan scale_plan() const { return {}; }
  // Of the loaded block, from now on and after loading it again: `producer` divides what it puts
  // out by `scale` (f32 [features], > 0), rounded in the model's dtype. Of a linear only the bias
  // is divided: its rows are divided by whoever replaces its weights.
  virtual void divide_output(const std::string& producer, const at::Tensor& scale);
  // Of the loaded block: `linear` computes with `weights` [out, in] until it is replaced, tried
  // again or released.
  virtual void try_weights(const std::string& linear, const at::Tensor& weights);
  // Of the loaded block: what `linear` alone makes of `input` [.., in], its bias added.
  virtual at::Tensor run_linear(const std::string& linear, const at::Tensor& input) const;

  // Of the ends. A tied head is one tensor with the embedding until either is replaced; from then
  // on they are two, the other one as loaded.
  virtual ModelExtras extras() const = 0;
  // In the model's dtype on the host, as loaded or replaced; may be a view of the file.
  virtual at::Tensor end_weight(ModelEnd end) = 0;
  // From now on `end` computes with `replacement`, its weights in the model's dtype. Throws Error
  // naming the end if the shape differs.
  virtual void replace_end(ModelEnd end, const LinearReplacement& replacement) = 0;
  // What the head multiplies [.., width], of hidden states [.., hidden] that left the last block:
  // final norm and, where a model has one, the projection before the head.
  virtual at::Tensor head_input(const at::Tensor& hidden) = 0;

  // The whole loaded block: output hidden states of `hidden`.
  at::Tensor run_block(const at::Tensor& hidden);

  // For planning memory; reads no weight.
  virtual ModelSizes sizes() const { return {}; }

  // Number of all weights, head and embeddings included (a head counted once while it is tied); for
  // bits_per_weight.*.
  virtual int64_t parameter_count() const = 0;
};

}  // namespace gptqb
