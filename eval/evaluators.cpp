#include "eval/evaluator.h"

namespace gptqb {

#define GPTQB_EVALUATOR(name, summary) std::unique_ptr<Evaluator> make_##name();
#include "eval/evaluators.def"
#undef GPTQB_EVALUATOR

const Registry<EvaluatorFactory>& evaluators() {
  static const Registry<EvaluatorFactory> registry("evaluator", {
#define GPTQB_EVALUATOR(name, summary) {#name, summary, make_##name, ""},
#include "eval/evaluators.def"
#undef GPTQB_EVALUATOR
                                                                });
  return registry;
}

}  // namespace gptqb
