// One cell from opening its model to its metrics.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "eval/evaluator.h"
#include "eval/generation.h"
#include "methods/clock.h"
#include "methods/quantize_report.h"
#include "methods/resume_store.h"
#include "models/causal_lm.h"
#include "runner/input_cache.h"
#include "runner/record.h"
#include "runner/run.h"

namespace gptqb {

// The model, opened, with the fingerprints of everything the cell will read: enough to decide
// whether a finished record still holds, before any long work.
struct PreparedCell {
  std::filesystem::path folder;  // the model's; of a synthetic one it means nothing
  std::unique_ptr<CausalLm> model;
  const CalibrationWindows* calibration = nullptr;  // null: the method needs none
  std::vector<std::vector<EvaluationInput>>
      evaluations;                  // one list for each of the cell's evaluators
  DenseReference* dense = nullptr;  // of the same checkpoint, dtype and device
  // What generating takes, of a cell with decode_latency.
  std::optional<GenerationMemory> generation;
  InputsRecord inputs;
  std::vector<std::string> notes;
};

// Identity of what a cell's codes are made from beside its settings: model, tokenizer, calibration
// windows, external program, device. Kept blocks replace all linears, so no later check would
// notice that they came from another model.
std::string quantization_inputs(const Record& record);

// Throws Error: anything wrong with model, tokenizer, data or overrides; more tokens to generate
// than the model has positions for.
PreparedCell prepare_cell(const Cell& cell, InputCache& cache, const RunOptions& options);

// The memory that a prepared cell takes within options.limits, all its windows counted; of one with
// decode_latency the model that generates is counted on the device. Throws Error as plan_memory()
// and require_room(): it does not fit.
MemoryPlan memory_of(const Cell& cell, const PreparedCell& prepared, const RunOptions& options);

// Quantizes a prepared cell within `memory`, as quantize_model() does. `store` and `hessians` may
// be null: nothing is kept.
QuantizeReport quantize_cell(const Cell& cell, PreparedCell& prepared, ResumeStore* store,
                             HessianSink* hessians, const MemoryPlan& memory,
                             const RunOptions& options, PhaseClock& clock);

// What the evaluators of a cell measure on `inputs`, a list for each of them, but for
// decode_latency where times_its_codes(). They share up to `shared_bytes` of hidden states.
// `progress` may be null.
std::vector<Metric> evaluate_cell(const Cell& cell, CausalLm& model,
                                  const std::vector<std::vector<EvaluationInput>>& inputs,
                                  DenseReference* dense, int64_t shared_bytes, Progress* progress);

// Quantizes and evaluates within `memory`; fills metrics, layers, seconds, peaks and policies of
// `record`. `clock` runs since the cell began: its phases become those of the record and add up to
// seconds.cell, which leaves out only the writing of the record itself.
void run_cell(const Cell& cell, PreparedCell& prepared, const MemoryPlan& memory,
              const RunOptions& options, PhaseClock& clock, Record& record);

}  // namespace gptqb
