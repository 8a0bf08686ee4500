#include "eval/generation.h"

#include <algorithm>
#include <chrono>

#include "common/error.h"
#include "common/progress.h"
#include "common/seconds_since.h"

namespace gptqb {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Generation generate(DecodeSession& session, const std::vector<int32_t>& prompt,
                    const GenerationOptions& options,
                    const std::function<bool(int32_t)>& on_token) {
  if (prompt.empty())
    throw Error("generation",
                "expected a prompt of one token or more, got none. The tokenizer adds no start "
                "token to an empty text");
  TokenSampler sampler(options.sampling);
  const auto draw = [&](const at::Tensor& logits) {
    const at::Tensor row = logits[0];
    const int64_t known = options.known_ids > 0 ? options.known_ids : row.size(0);
    return sampler.next(row.narrow(0, 0, std::min(known, row.size(0))));
  };
  Generation written;
  if (options.max_tokens < 1) return written;
  auto start = Clock::now();
  int64_t id = draw(session.prefill(at::tensor(prompt, at::kLong).unsqueeze(0)));
  written.first_seconds = seconds_since(start);
  start = Clock::now();
  while (true) {
    if (options.end_ids.contains(id)) {
      written.end = GenerationEnd::kEndToken;
      break;
    }
    written.ids.push_back(static_cast<int32_t>(id));
    if (!on_token(static_cast<int32_t>(id))) {
      written.end = GenerationEnd::kStopped;
      break;
    }
    if (static_cast<int64_t>(written.ids.size()) == options.max_tokens) break;
    throw_if_interrupted();
    id = draw(session.step(at::full({1, 1}, id, at::kLong)));
    ++written.steps;
  }
  written.step_seconds = seconds_since(start);
  return written;
}

GenerationMemory generation_memory(const CausalLm& model, const DecodeOptions& options,
                                   bool from_codes) {
  const ModelSizes sizes = model.sizes();
  const int64_t element = sizes.element_bytes;
  GenerationMemory memory;
  const CacheShape cache = model.cache_shape(options.batch, options.positions);
  memory.cache = cache.elements() * element;

  memory.weights = model.parameter_count() * element;
  if (from_codes) {
    const PackedShare share = model.packed_share();
    memory.weights += share.bits / 8 - share.weights * element;
    // While a block is packed, its codes are there as they were read, too.
    for (const int64_t elements : sizes.block_tensors) memory.weights += elements;
  }

  const int64_t count = std::min(options.chunk, options.positions);
  const int64_t tokens = options.batch * count;
  int64_t widest = 0;
  for (const ModelSizes::Stage& stage : sizes.stages) {
    int64_t outs = 0;
    for (const int64_t out : stage.outs) outs += out;
    widest = std::max(widest, stage.in + sizes.activation_copies * outs);
  }
  const int64_t hidden = sizes.stages.empty() ? 0 : sizes.stages.front().in;
  memory.activations = tokens * (4 * hidden + 2 * widest) * element;
  // The mask for all query heads; where scores are not fused, they are there in float32 besides.
  const int64_t queries = sizes.stages.empty() ? 0 : sizes.stages.front().outs.front();
  const int64_t heads = sizes.heads > 0 ? sizes.heads : queries / cache.head_dim;
  const int64_t scores = heads * count * options.positions;
  memory.activations += scores * element;
  if (sizes.scores_at_once > 0) memory.activations += options.batch * scores * (4 + 2 * element);
  // Logits, and on their way to a token in float64.
  memory.activations += options.batch * sizes.vocabulary * (element + 3 * 8);
  return memory;
}

}  // namespace gptqb
