// quantize: an experiment of one cell, which writes a packed checkpoint, from the command line.
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "eval/evaluator.h"
#include "methods/quantizer.h"
#include "runner/cli_commands.h"
#include "runner/model_checks.h"

namespace gptqb {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string experiment_text(const QuantizeCommandOptions& options) {
  std::string text = "name: quantize\n";
  const auto section = [&](const std::string& name,
                           const std::vector<std::pair<std::string, std::string>>& entries) {
    text += name + ":\n";
    for (const auto& [key, value] : entries)
      if (!value.empty()) text += "  " + key + ": " + value + "\n";
  };
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  section("model", {{"path", quoted(options.model)}, {"dtype", quoted(options.dtype)}});
  section("calibration", {{"dataset", quoted(options.dataset)},
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
  section("save", {{"path", quoted(options.out)},
                   {"format", options.format.empty() ? "" : quoted(options.format)},
                   {"shard_size", number_text(options.shard_size)}});
  return text;
}

}  // namespace

int quantize_command(const QuantizeCommandOptions& options, std::ostream& out, std::ostream& err) {
  const auto experiments = parse_experiments(experiment_text(options), "quantize",
                                             {.set = options.run.files.set, .tier = ""});
  const Plan plan = make_plan(
      experiments.at(0), {.methods = quantizers().names(), .evaluators = evaluators().names()});
  check_models(plan, "");
  return run_plans({plan}, options.run, out, err);
}

}  // namespace gptqb
