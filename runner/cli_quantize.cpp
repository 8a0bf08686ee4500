// quantize: an experiment of one cell, which writes a packed checkpoint, from the command line.
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "datasets/utf8.h"
#include "eval/evaluator.h"
#include "methods/quantizer.h"
#include "runner/cli_commands.h"
#include "runner/model_checks.h"
#include "runner/save_checks.h"

namespace gptqb {
namespace {

// As YAML takes it, which is UTF-8, as records and the folder's own settings are.
std::string quoted(const char* option, const std::string& text) {
  if (find_invalid_utf8(text))
    throw Error(option, "expected UTF-8, which experiments and records are written in, got '" +
                            replace_invalid_utf8(text) + "'. Rename it, or give a link to it");
  return nlohmann::json(text).dump();
}

std::string experiment_text(const QuantizeCommandOptions& options) {
  std::string text = "name: quantize\n";
  const auto section = [&](const std::string& name,
                           const std::vector<std::pair<std::string, std::string>>& entries) {
    text += name + ":\n";
    for (const auto& [key, value] : entries)
      if (!value.empty()) text += "  " + key + ": " + value + "\n";
  };
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  section("model",
          {{"path", quoted("model", options.model)}, {"dtype", quoted("--dtype", options.dtype)}});
  section("calibration", {{"dataset", quoted("--dataset", options.dataset)},
                          {"samples", std::to_string(options.samples)},
                          {"seqlen", std::to_string(options.seqlen)},
                          {"seed", std::to_string(options.seed)}});
  section("method", {{"name", "gptq"},
                     {"damping", number_text(options.damping)},
                     {"act_order", flag(options.act_order)},
                     {"static_groups", flag(options.static_groups)},
                     {"true_sequential", flag(options.true_sequential)}});
  section("quant", {{"bits", std::to_string(options.bits)},
                    {"group_size", std::to_string(options.group_size)},
                    {"symmetric", flag(options.symmetric)}});
  section("save", {{"path", quoted("--out", options.out)},
                   {"format", options.format.empty() ? "" : quoted("--format", options.format)},
                   {"shard_size", number_text(options.shard_size)}});
  return text;
}

}  // namespace

int quantize_command(const QuantizeCommandOptions& options, std::ostream& out, std::ostream& err) {
  const auto experiments = parse_experiments(experiment_text(options), "quantize",
                                             {.set = options.run.files.set, .tier = ""});
  const Plan plan = make_plan(
      experiments.at(0), {.methods = quantizers().names(), .evaluators = evaluators().names()});
  check_saves(plan, check_models(plan, "").sizes, "");
  return run_plans({plan}, options.run, out, err);
}

}  // namespace gptqb
