// bench: an experiment of one cell, which measures kernels, from the command line.
#include <nlohmann/json.hpp>
#include <regex>

#include "common/text.h"
#include "eval/evaluator.h"
#include "methods/quantizer.h"
#include "runner/cli_commands.h"

namespace gptqb {
namespace {

// As YAML: plain where it can be nothing but a word or a number, so that numbers stay numbers.
std::string scalar(const std::string& text) {
  static const std::regex kPlain("[A-Za-z0-9_.+-]+");
  return std::regex_match(text, kPlain) ? text : nlohmann::json(text).dump();
}

std::string list(const std::vector<std::string>& texts) {
  std::vector<std::string> scalars;
  for (const std::string& text : texts) scalars.push_back(scalar(text));
  return "[" + join(scalars, ", ") + "]";
}

std::string experiment_text(const BenchCommandOptions& options) {
  std::string text = "name: bench\nkernels:\n";
  const auto add = [&](const std::string& key, const std::string& value) {
    text += "  " + key + ": " + value + "\n";
  };
  // Both are an error, which the reader of experiments tells.
  if (!options.like.empty() || options.shapes.empty())
    add("like", scalar(options.like.empty() ? "llama-7b" : options.like));
  if (!options.shapes.empty()) add("shapes", list(options.shapes));
  for (const auto& [key, values] : options.lists)
    if (!values.empty()) add(key, values.size() == 1 ? scalar(values[0]) : list(values));
  if (!options.filter.empty()) add("filter", nlohmann::json(options.filter).dump());
  if (options.warm) add("cold", "false");
  if (options.repetitions != 0) add("repetitions", std::to_string(options.repetitions));
  return text;
}

}  // namespace

int bench_command(const BenchCommandOptions& options, std::ostream& out, std::ostream& err) {
  const auto experiments = parse_experiments(experiment_text(options), "bench");
  const Plan plan = make_plan(
      experiments.at(0), {.methods = quantizers().names(), .evaluators = evaluators().names()});
  RunCommandOptions run = options.run;
  run.fresh = true;  // asked for a measurement, not for an earlier one
  return run_plans({plan}, run, out, err);
}

}  // namespace gptqb
