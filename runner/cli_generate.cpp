// generate: a model folder, dense or packed, writes text behind a prompt.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "common/error.h"
#include "datasets/tokenizer.h"
#include "eval/generation.h"
#include "eval/text_stream.h"
#include "methods/half_type.h"
#include "models/causal_lm.h"
#include "models/config.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/generation_room.h"
#include "runner/run.h"

namespace gptqb {
namespace {

std::string prompt_of(const GenerateOptions& options, std::istream& in) {
  const bool has_file = !options.prompt_file.empty();
  if (options.prompt.has_value() == has_file)
    throw Error("generate", "expected either a prompt or --prompt-file, got " +
                                std::string(has_file ? "both" : "neither") +
                                ". '-' is standard input");
  const std::string source = has_file ? options.prompt_file : *options.prompt;
  if (source == "-") return {std::istreambuf_iterator<char>(in), {}};
  if (!has_file) return source;
  std::ifstream file(source, std::ios::binary);
  if (!file) throw Error("--prompt-file", "expected a file that can be read, got '" + source + "'");
  return {std::istreambuf_iterator<char>(file), {}};
}

struct OpenedModel {
  std::unique_ptr<CausalLm> model;
  bool from_codes = false;
};

// Codes are computed from where there are codes and kernels for the dtype.
OpenedModel open(const GenerateOptions& options, at::Device device) {
  ModelOptions how{.dtype = options.dtype,
                   .device = device,
                   .checkpoint_format = options.checkpoint_format,
                   .backend = options.backend};
  OpenedModel opened{open_model(options.folder, how), options.backend == "packed"};
  if (options.backend == "auto" && opened.model->packed_share().weights > 0 &&
      opened.model->dtype() != at::kFloat) {
    how.backend = "packed";
    opened = {open_model(options.folder, how), true};
  }
  return opened;
}

// All that the folder names; instruction-tuned models have several, some of them in
// generation_config.json alone.
std::set<int64_t> end_ids(const std::filesystem::path& folder) {
  std::set<int64_t> ids;
  for (const char* name : {"config.json", "generation_config.json"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    const ConfigReader config(folder / name);
    if (!config.token_id("eos_token_id")) continue;
    const auto& value = config.object().at("eos_token_id");
    for (const auto& id : value.is_array() ? value : nlohmann::json::array({value}))
      if (id.is_number_integer()) ids.insert(id.get<int64_t>());
  }
  return ids;
}

std::string rate(int64_t tokens, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  std::string line = text;
  if (seconds > 0) {
    std::snprintf(text, sizeof text, ", %.1f tokens per second",
                  static_cast<double>(tokens) / seconds);
    line += text;
  }
  return line;
}

std::string kernels_text(const CausalLm& model) {
  std::string text;
  for (const auto& [kernel, products] : model.kernels_run())
    text += (text.empty() ? "" : ", ") + kernel + " (" + std::to_string(products) + " products)";
  return text.empty() ? "dense products of ATen in " + std::string(type_name(model.dtype())) : text;
}

std::string end_text(const Generation& written, const std::string& stop, int64_t max_tokens) {
  switch (written.end) {
    case GenerationEnd::kEndToken:
      return "end token of the model";
    case GenerationEnd::kStopped:
      return "stop text '" + stop + "'";
    case GenerationEnd::kMaxTokens:
      break;
  }
  return "max tokens (" + std::to_string(max_tokens) + ")";
}

}  // namespace

int generate_command(const GenerateOptions& options, std::istream& in, std::ostream& out,
                     std::ostream& err) {
  if (options.max_tokens < 1)
    throw Error("--max-tokens",
                "expected a whole number from 1 on, got " + std::to_string(options.max_tokens));
  const std::string text = prompt_of(options, in);
  GenerationOptions generation;
  generation.max_tokens = options.max_tokens;
  generation.sampling = options.sampling;
  TokenSampler{options.sampling};  // refuses what it cannot do before anything is opened
  const auto tokenizer = open_tokenizer(options.folder);
  const std::vector<int32_t> prompt =
      options.no_special_tokens ? tokenizer->encode(text) : tokenizer->encode_with_special(text);
  TextStream stream(*tokenizer, prompt, options.stops,
                    [&](std::string_view part) { out << part << std::flush; });

  const at::Device device(one_device(options.device));
  const auto [model, from_codes] = open(options, device);
  for (const std::string& note : model->notes()) err << "note: " << note << '\n';
  const auto count = static_cast<int64_t>(prompt.size());
  if (count + options.max_tokens > model->max_positions())
    throw Error("generate",
                "expected a prompt and --max-tokens of at most " +
                    std::to_string(model->max_positions()) +
                    " tokens together, which is what the model has positions for, got " +
                    std::to_string(count) + " and " + std::to_string(options.max_tokens));
  DecodeOptions decode;
  decode.positions = count + options.max_tokens;
  require_room(generation_memory(*model, decode, from_codes), device, std::nullopt,
               "Use a smaller --max-tokens or model, or another --device");

  generation.known_ids = tokenizer->vocab_size();
  generation.end_ids = end_ids(options.folder);
  if (const auto id = tokenizer->eos_id()) generation.end_ids.insert(*id);
  DecodeSession session(*model, decode);
  const Generation written =
      generate(session, prompt, generation, [&](int32_t id) { return stream.add(id); });
  stream.finish();
  out << std::endl;

  err << "prompt:    " << count << " tokens, first token after "
      << rate(count, written.first_seconds) << '\n'
      << "generated: " << written.ids.size() << " tokens, " << written.steps << " steps in "
      << rate(written.steps, written.step_seconds) << '\n'
      << "kernels:   " << kernels_text(*model) << '\n'
      << "ended at:  " << end_text(written, stream.stop_found(), options.max_tokens) << '\n';
  return kExitOk;
}

}  // namespace gptqb
