// How long a model takes for each token that it writes on a cache, and what it reads and holds for
// it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/progress.h"
#include "eval/decode_session.h"
#include "eval/decode_task.h"
#include "eval/generation.h"
#include "models/causal_lm.h"

namespace gptqb {

// Bytes that one step reads at least: each weight that it needs once, and the cache's keys and
// values as far as attention reads (KvCache::reach, a multiple of 256 positions), averaged over the
// steps. Of an untied embedding only rows are read, which are not counted; a table of positions is,
// on the high side.
struct StepBytes {
  double weights = 0;
  double cache = 0;
  double total() const { return weights + cache; }
};

struct DecodeCheck {
  int64_t steps = 0;      // of each sequence that was compared; 0: nothing was
  int64_t tokens = 0;     // compared
  int64_t undecided = 0;  // of them: the two best logits lie within rounding, so either is right
  double largest_difference = 0;  // of logits, over the largest logit
  std::string reason;             // why nothing was compared; else empty
};

struct DecodeLatency {
  int64_t batch = 0;
  DecodeCheck check;
  // To the first token: the prompt's pass, or the first step; the median of the passes.
  double first_seconds = 0;
  // Of each step, all sequences together, from the arrival of the tokens before it on the host to
  // that of its own: generate - 1 behind a prompt, else generate; one pass after the other. A step
  // is queued before the tokens of the one before are there.
  std::vector<double> step_seconds;
  double median = 0;  // of step_seconds; p10 and p90 likewise
  double p10 = 0;
  double p90 = 0;
  double tokens_per_second = 0;  // batch / median
  StepBytes step_bytes;
  // step_bytes in the median step, of what a plain read reaches in the same time; 0: not measured.
  double bandwidth_share = 0;
  GenerationMemory memory;           // planned; its cache is what was allocated
  std::vector<std::string> kernels;  // that multiplied packed weights in steps
};

// Warms up, checks as task.check says, and then times task.repeats passes, on one session. `ids`
// i64 [batch, task.given()] on the host: prompt, and what is fed where it is given; task.batch is
// not looked at. `read_rate`: bytes a second, as read_bytes_per_second (plain_read.h) measured them
// in the same run; 0: no share is told. Throws Error: settings out of range, other sizes of `ids`,
// too few positions in the model, and as check_decode; Interrupted at Ctrl-C.
DecodeLatency measure_decode(CausalLm& model, const at::Tensor& ids, const DecodeTask& task,
                             double read_rate = 0);

// Bytes of the plain read that times of `model` are held against: 1 GiB; less for a model that
// caches may hold, of which no share of memory means much.
int64_t plain_read_size(const CausalLm& model);

// Of one step of `batch` sequences, with `reach` positions read of the cache.
StepBytes step_bytes(const CausalLm& model, int64_t batch, double reach, bool from_codes);

// What a step of a model with `blocks` blocks reads, as often as one of `model`, which has some of
// them: the ends of a model are there once, whatever it has in blocks.
double step_growth(const CausalLm& model, const StepBytes& step, int64_t blocks, bool from_codes);

struct CheckPlan {
  int64_t steps = 0;
  int64_t rows = 0;    // sequences of the batch that are recomputed
  std::string reason;  // why there are no steps; else empty
};

// How much of a batch is checked before `task` is timed: at most 4 sequences, and so many steps as
// were asked for; by itself 8 steps, or as many as recomputing takes a few seconds for, by the
// number of multiplications.
CheckPlan check_plan(const CausalLm& model, const DecodeTask& task, int64_t batch);

// Writes `steps` tokens greedily behind `ids` i64 [batch, count] with `session`, which is cleared
// first, and of `rows` sequences, evenly spaced (0: all), again by running the whole text through
// `model` without a cache for each token. Throws Error if a token differs where the two best logits
// of the recomputation are further apart than rounding in the model's dtype may move them, or where
// logits are not finite.
DecodeCheck check_decode(CausalLm& model, DecodeSession& session, const at::Tensor& ids,
                         int64_t steps, int64_t rows = 0);

}  // namespace gptqb
