// `gptq-bench rerun RECORD`: what a second run of a record's cell must have in common with it.
#pragma once

#include <string>
#include <vector>

#include "runner/record.h"

namespace gptqb {

struct Difference {
  std::string what;  // "perplexity.wikitext2", "codes of model.layers.0.mlp.up_proj"
  std::string before;
  std::string after;
};

// Of what went in: fingerprints of model, tokenizer and external program, the ids of each set of
// token windows and the files they were read from; full hashes of the model's files where both
// have them.
std::vector<Difference> input_differences(const InputsRecord& before, const InputsRecord& after);

// Of what came out: status, every metric and its samples, and of each layer the codes, errors,
// damping and counts, all to the bit. Left out is what no two runs share: times, rates, peaks of
// memory and estimates (metric_kind.h); and what `save` measured, where only one run saved.
std::vector<Difference> result_differences(const Record& before, const Record& after);

}  // namespace gptqb
