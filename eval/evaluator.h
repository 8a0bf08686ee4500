// The interface of an evaluator: a model and token windows in, metrics out. No files, no YAML.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/registry.h"
#include "datasets/windows.h"
#include "eval/decode_task.h"
#include "eval/dense_reference.h"
#include "eval/hidden_states.h"
#include "eval/metric.h"
#include "models/causal_lm.h"

namespace gptqb {

// One dataset to evaluate on; `name` goes into metric names.
struct EvaluationInput {
  std::string name;
  const TokenWindows* windows = nullptr;
};

struct EvaluationOptions {
  int64_t batch = 0;                 // windows that run together; 0: chosen by the evaluator
  bool loss_in_model_dtype = false;  // compat.loss_dtype: model
  // Of the evaluated model, where several evaluators may see the same windows; null: not shared.
  HiddenStateCache* states = nullptr;
  // For evaluators that compare; null where there is none, which they refuse.
  DenseReference* dense = nullptr;
  // For decode_latency, which refuses to run without; null for others.
  const DecodeTask* decode = nullptr;
  Progress* progress = nullptr;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Throws Error naming the dataset if windows do not fit the model (seqlen over its positions, ids
  // over its vocabulary).
  virtual std::vector<Metric> evaluate(CausalLm& model, const std::vector<EvaluationInput>& inputs,
                                       const EvaluationOptions& options) const = 0;
};

using EvaluatorFactory = std::unique_ptr<Evaluator> (*)();
const Registry<EvaluatorFactory>& evaluators();

}  // namespace gptqb
