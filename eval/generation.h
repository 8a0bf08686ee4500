// One text, token by token, from a prompt to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "eval/decode_session.h"
#include "eval/token_sampler.h"

namespace gptqb {

struct GenerationOptions {
  int64_t max_tokens = 128;
  SamplingOptions sampling;
  std::set<int64_t> end_ids;  // a token that ends the text and is no part of it
  // Ids from here on are never written: a model may have logits for more ids than its tokenizer
  // knows. 0: all are.
  int64_t known_ids = 0;
};

enum class GenerationEnd { kEndToken, kStopped, kMaxTokens };

struct Generation {
  std::vector<int32_t> ids;  // without prompt and end token
  GenerationEnd end = GenerationEnd::kMaxTokens;
  double first_seconds = 0;  // from the call to the first token, which the prompt's pass gives
  double step_seconds = 0;   // of all steps after it
  int64_t steps = 0;         // tokens drawn after the first
};

// Writes behind `prompt`, which `session`, of one sequence, sees first. `on_token` is called with
// each id as it comes; false: the text ends with it. Throws Error as DecodeSession and
// TokenSampler; Interrupted at Ctrl-C.
Generation generate(DecodeSession& session, const std::vector<int32_t>& prompt,
                    const GenerationOptions& options, const std::function<bool(int32_t)>& on_token);

// Bytes that generating takes on the model's device, on the high side.
struct GenerationMemory {
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t activations = 0;
  int64_t total() const { return weights + cache + activations; }
};

// `from_codes`: packed linears are computed from their codes (ModelOptions::backend packed). Reads
// no weight. Throws Error if the model has fewer positions.
GenerationMemory generation_memory(const CausalLm& model, const DecodeOptions& options,
                                   bool from_codes);

}  // namespace gptqb
