#include "models/replaced_weights.h"

#include "common/error.h"

namespace gptqb {

void ReplacedWeights::leave_to(ReplacedShelf* shelf) {
  left_ = true;
  shelf_ = shelf;
}

void ReplacedWeights::put(int64_t block, const std::string& linear,
                          const LinearReplacement& replacement) {
  names_[block].insert(linear);
  if (!left_) kept_[block][linear] = replacement;
}

bool ReplacedWeights::has(int64_t block, const std::string& linear) const {
  const auto names = names_.find(block);
  return names != names_.end() && names->second.contains(linear);
}

std::map<std::string, KeptLinear> ReplacedWeights::of_block(int64_t block) const {
  const auto names = names_.find(block);
  if (names == names_.end()) return {};
  if (const auto kept = kept_.find(block); kept != kept_.end()) return kept->second;
  const std::string where = "block " + std::to_string(block);
  if (shelf_ == nullptr)
    throw Error(where,
                "expected a block that is kept, got one whose codes were let go because nothing "
                "was to read them again");
  auto linears = shelf_->linears(block);
  for (const std::string& name : names->second)
    if (!linears.contains(name))
      throw Error(where, "expected codes of " + name + " among the finished blocks, got none");
  return linears;
}

}  // namespace gptqb
