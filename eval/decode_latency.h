// How long a model takes for each token that it writes on a cache, and what it reads and holds for
// it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "common/progress.h"
#include "eval/decode_session.h"
#include "eval/generation.h"
#include "models/causal_lm.h"

namespace gptqb {

struct DecodeTask {
  // Tokens that run through the model before the first step. 0: the cache is empty at first and all
  // tokens go through it one at a time, as in the published loop.
  int64_t prompt = 0;
  int64_t generate = 128;  // tokens that are made, 2 or more: the first by the prompt, if any
  int64_t warmup = 3;      // steps before the pass that is timed; forgotten again
  // Feed given tokens, not those that the model would write.
  bool teacher_forced = false;
  // Linears of a packed model are computed from their codes (ModelOptions::backend packed).
  bool from_codes = false;

  // Columns of ids that a pass is given.
  int64_t given() const {
    if (teacher_forced) return prompt > 0 ? prompt + generate - 1 : generate;
    return prompt > 0 ? prompt : 1;
  }
  // Tokens that a sequence has at the end of a pass: the last one made is not fed.
  int64_t positions() const { return prompt > 0 ? prompt + generate - 1 : generate; }
};

// Bytes that one step reads at least: each weight that it needs once, and the cache's keys and
// values as far as attention reads (KvCache::reach, a multiple of 256 positions), averaged over the
// steps. Of an untied embedding only rows are read, which are not counted; a table of positions is,
// on the high side.
struct StepBytes {
  double weights = 0;
  double cache = 0;
  double total() const { return weights + cache; }
};

struct DecodeLatency {
  int64_t batch = 0;
  double first_seconds = 0;  // to the first token: the prompt's pass, or the first step
  // Of each step, all sequences together, until its tokens are on the host: generate - 1 behind a
  // prompt, else generate.
  std::vector<double> step_seconds;
  double median = 0;  // of step_seconds; p10 and p90 likewise
  double p10 = 0;
  double p90 = 0;
  double tokens_per_second = 0;  // batch / median
  StepBytes step_bytes;
  // step_bytes in the median step, of what a plain read reaches in the same time; 0: not measured.
  double bandwidth_share = 0;
  GenerationMemory memory;  // planned; its cache is what was allocated
};

// `ids` i64 [batch, task.given()] on the host: prompt, and what is fed where it is given.
// `read_rate`: bytes a second, as read_bytes_per_second (plain_read.h) measured them in the same
// run; 0: no share is told. Throws Error: settings out of range, other sizes of `ids`, too few
// positions in the model; Interrupted at Ctrl-C.
DecodeLatency measure_decode(CausalLm& model, const at::Tensor& ids, const DecodeTask& task,
                             double read_rate = 0);

// Of one step of `batch` sequences, with `reach` positions read of the cache.
StepBytes step_bytes(const CausalLm& model, int64_t batch, double reach, bool from_codes);

struct DecodeCheck {
  int64_t tokens = 0;     // compared
  int64_t undecided = 0;  // of them: the two best logits lie within rounding, so either is right
  double largest_difference = 0;  // of logits, over the largest logit
};

// Writes `steps` tokens greedily behind `ids` i64 [batch, count] with `session`, which is cleared
// first, and again by running the whole text through `model` without a cache for each token. Throws
// Error if a token differs where the two best logits of the recomputation are further apart than
// rounding in the model's dtype may move them, or where logits are not finite.
DecodeCheck check_decode(CausalLm& model, DecodeSession& session, const at::Tensor& ids,
                         int64_t steps);

}  // namespace gptqb
