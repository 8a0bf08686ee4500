#include "runner/save_settings.h"

#include <utility>

namespace gptqb {
namespace {

// Of one rule or of the cell itself.
std::string layer_refusal(const SaveSettings& save, const Cell& cell, const LayerChoice& choice) {
  if (choice.skip || choice.method == "none") return "";
  if (choice.method == "llm_int8" || (choice.method == "awq" && cell.method().name != "awq"))
    return "expected gptq, rtn, obq, awq for all layers, or external beside `save`, got " +
           choice.method + (choice.rule.empty() ? "" : " by the rule " + choice.rule) +
           ", whose layers are more than codes and grids: packed checkpoints cannot hold them";
  if (choice.quant.ternary())
    return "expected 2, 3, 4 or 8 bits beside `save`, got ternary, which packed checkpoints cannot "
           "hold";
  if (choice.quant.scale_dtype != ScaleDtype::kFloat16)
    return "expected quant.scale_dtype: float16 beside `save`, got float32: packed checkpoints "
           "hold "
           "float16 scales, and the file would not be what was measured";
  if (save.format_of(cell) == PackedFormat::kGptq && !choice.quant.symmetric)
    return "expected format: gptq_v2 with quant.symmetric: false, got gptq, which has no zero "
           "point "
           "of 0; groups without a negative weight need it";
  return "";
}

}  // namespace

std::string save_refusal(const SaveSettings& save, const Cell& cell) {
  if (cell.dense() || cell.measures_kernels()) return "";
  if (cell.embedding())
    return "expected quant.embedding: none beside `save`, got " +
           std::to_string(cell.embedding()->bits) +
           " bits: packed checkpoints have no codes of an embedding. Quantize the head alone "
           "(quant.head), or leave `save` out";
  if (cell.method().rows > 0)
    return "expected all rows beside `save`, got method.rows " +
           std::to_string(cell.method().rows) + ": a sample is no model";
  std::string reason = layer_refusal(save, cell, cell.settings_for(""));
  for (const OverrideRule& rule : cell.overrides())
    if (reason.empty()) reason = layer_refusal(save, cell, rule.choice);
  return reason;
}

}  // namespace gptqb
