// What of generating is timed. No tensors: a cell of an experiment holds one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gptqb {

struct DecodeTask {
  static constexpr int64_t kCheckAuto = -1;

  // Tokens that run through the model before the first step. 0: the cache is empty at first and all
  // tokens go through it one at a time, as in the published loop.
  int64_t prompt = 0;
  int64_t generate = 128;  // tokens that are made, 2 or more: the first by the prompt, if any
  int64_t warmup = 3;      // steps before the passes that are timed; forgotten again
  // Feed given tokens, not those that the model would write.
  bool teacher_forced = false;
  // Linears of a packed model are computed from their codes (ModelOptions::backend packed).
  bool from_codes = false;
  int64_t repeats = 1;  // passes that are timed
  // Steps that are compared with a recomputation before anything is timed. kCheckAuto: as many, up
  // to 8, as take seconds (check_plan).
  int64_t check = kCheckAuto;
  std::vector<int64_t> batch = {1};  // sequences at once, each number measured on its own
  // Blocks of the whole model where only some of them were made; 0: the model is whole.
  int64_t blocks_of_whole = 0;

  int64_t largest_batch() const { return *std::max_element(batch.begin(), batch.end()); }
  // Columns of ids that a pass is given.
  int64_t given() const {
    if (teacher_forced) return prompt > 0 ? prompt + generate - 1 : generate;
    return prompt > 0 ? prompt : 1;
  }
  // Tokens that a sequence has at the end of a pass: the last one made is not fed.
  int64_t positions() const { return prompt > 0 ? prompt + generate - 1 : generate; }
};

}  // namespace gptqb
