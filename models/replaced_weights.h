// What the linears of a model's blocks compute with since they were replaced.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "methods/block_model.h"

namespace gptqb {

// As codes, packed to their bits: whoever loads a block dequantizes it again. In memory, unless
// finished blocks are left to a shelf.
class ReplacedWeights {
 public:
  // From now on nothing is kept here. A block that is asked for is taken from `shelf`; null: it is
  // not asked for.
  void leave_to(ReplacedShelf* shelf);

  // `linear` by its name within the block.
  void put(int64_t block, const std::string& linear, const LinearReplacement& replacement);
  bool has(int64_t block, const std::string& linear) const;
  // The replaced linears of a block. Throws Error if they are neither here nor on the shelf.
  std::map<std::string, KeptLinear> of_block(int64_t block) const;

 private:
  std::map<int64_t, std::set<std::string>> names_;
  bool left_ = false;
  ReplacedShelf* shelf_ = nullptr;
  std::map<int64_t, std::map<std::string, KeptLinear>> kept_;  // unless they are left
};

}  // namespace gptqb
