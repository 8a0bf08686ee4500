// A sweep of 60 cells, each of milliseconds, for tests of where and how often cells run.
#pragma once

#include <string>

namespace gptqb::test {

constexpr size_t kTinySweepCells = 60;

// 3 methods, 4 widths, 3 groups, 2 dampings; `none` is left out, and plain rounding knows no
// damping: 12 + 48 cells.
inline std::string tiny_sweep(const std::string& more = "") {
  return "name: sweep\n"
         "model: {synthetic: {architecture: llama, hidden_size: 32, intermediate_size: 64, heads: "
         "2, layers: 2, vocab_size: 100}, dtype: float32}\n"
         "calibration: {dataset: random, samples: 4, seqlen: 32, heldout: 1}\n"
         "evaluate:\n"
         "  - perplexity: {datasets: [random], seqlen: 32, max_windows: 2}\n"
         "sweep:\n"
         "  method.name: [none, rtn, gptq]\n"
         "  quant.bits: [2, 3, 4, 8]\n"
         "  quant.group_size: [8, 16, 32]\n"
         "  method.damping: [0.01, 0.05]\n"
         "  method.block_size: [16, 32]\n"
         "exclude: [{method.name: none}]\n" +
         more;
}

// A sweep over `methods` whose external program is `script`, for cells that take their process
// down.
inline std::string sweep_of_script(const std::string& script, const std::string& methods) {
  return "name: crash\n"
         "model: {synthetic: {architecture: llama, hidden_size: 32, intermediate_size: 64, heads: "
         "2, layers: 1, vocab_size: 100}, dtype: float32}\n"
         "calibration: {dataset: random, samples: 2, seqlen: 16, heldout: 1}\n"
         "method: {command: \"sh " +
         script +
         "\"}\n"
         "quant: {group_size: 8}\n"
         "sweep: {method.name: " +
         methods + "}\n";
}

}  // namespace gptqb::test
