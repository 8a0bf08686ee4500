#include "models/causal_lm.h"

#include "common/error.h"

namespace gptqb {
namespace {

[[noreturn]] void refuse(const CausalLm& model) {
  throw Error("cache of keys and values", "expected an architecture that computes with one, got '" +
                                              model.architecture() + "'");
}

}  // namespace

CacheShape CausalLm::cache_shape(int64_t, int64_t) const { refuse(*this); }

at::Tensor CausalLm::run_cached(const at::Tensor&, KvCache&) { refuse(*this); }

}  // namespace gptqb
