// Keys of the section `evaluate`.
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

namespace {

// The evaluator `name` of a cell, made where it is first mentioned.
EvaluatorSpec& evaluator(ResolvedSettings& settings, const std::string& name) {
  for (EvaluatorSpec& spec : settings.evaluators)
    if (spec.name == name) return spec;
  EvaluatorSpec spec;
  spec.name = name;
  settings.evaluators.push_back(spec);
  return settings.evaluators.back();
}

// `evaluate.NAME.datasets`, `.seqlen` and `.max_windows`: what every evaluator on token windows
// takes.
void append_window_options(const std::string& name, const std::string& datasets_meaning,
                           std::vector<KeySpec>& table) {
  const std::string prefix = "evaluate." + name + ".";
  table.push_back(with_bind(with_arity(plain(prefix + "datasets", KeyType::kDataset, Scope::kCell,
                                             "required", datasets_meaning),
                                       Arity::kList),
                            [name](ResolvedSettings& settings, const json& value) {
                              EvaluatorSpec& spec = evaluator(settings, name);
                              spec.datasets.clear();
                              for (const json& entry : value)
                                spec.datasets.push_back(dataset_from_json(entry));
                            }));
  table.push_back(with_bind(with_range(with_default(plain(prefix + "seqlen", KeyType::kInteger,
                                                          Scope::kCell, "", "tokens a window"),
                                                    EvaluatorSpec{}.seqlen),
                                       2),
                            [name](ResolvedSettings& settings, const json& value) {
                              evaluator(settings, name).seqlen = value.get<int64_t>();
                            }));
  table.push_back(with_bind(
      with_range(with_default(plain(prefix + "max_windows", KeyType::kInteger, Scope::kCell, "",
                                    "windows of each text, from its start; 0: all"),
                              EvaluatorSpec{}.max_windows),
                 0),
      [name](ResolvedSettings& settings, const json& value) {
        evaluator(settings, name).max_windows = value.get<int64_t>();
      }));
}

}  // namespace

void append_evaluate(std::vector<KeySpec>& table) {
  table.push_back(plain("evaluate", KeyType::kStructure, Scope::kDocument, "[]",
                        "list of evaluators, each `name: {options}`"));
  const std::string perplexity = "evaluate.perplexity.";
  append_window_options("perplexity", "texts that are scored", table);
  table.push_back(with_bind(
      with_words(with_range(with_default(plain(perplexity + "batch", KeyType::kInteger,
                                               Scope::kCell, "", "windows that run together"),
                                         "auto"),
                            1),
                 {"auto"}),
      [](ResolvedSettings& settings, const json& value) {
        evaluator(settings, "perplexity").batch = value.is_string() ? 0 : value.get<int64_t>();
      }));
  table.push_back(with_bind(
      word(perplexity + "bos", {"tokenizer", "none", "every_window"}, "tokenizer",
           "start token: as the tokenizer puts it, nowhere, or at the head of each window"),
      [](ResolvedSettings& settings, const json& value) {
        evaluator(settings, "perplexity").bos = value == "none"           ? BosPolicy::kNone
                                                : value == "every_window" ? BosPolicy::kEveryWindow
                                                                          : BosPolicy::kTokenizer;
      }));
  append_window_options("divergence", "texts on which outputs are compared with the dense model's",
                        table);
  const std::string latency = "evaluate.decode_latency.";
  table.push_back(
      planned(with_range(with_default(plain(latency + "prompt", KeyType::kInteger, Scope::kCell, "",
                                            "tokens before the first timed one"),
                                      0),
                         0)));
  table.push_back(planned(with_range(with_default(plain(latency + "generate", KeyType::kInteger,
                                                        Scope::kCell, "", "tokens that are timed"),
                                                  128),
                                     1)));
  table.push_back(planned(with_range(
      with_default(
          plain(latency + "batch", KeyType::kInteger, Scope::kCell, "", "sequences at once"), 1),
      1)));
  table.push_back(
      planned(with_default(plain(latency + "teacher_forced", KeyType::kBool, Scope::kCell, "",
                                 "feed given tokens instead of generated ones"),
                           false)));
  KeySpec tasks = word(
      "evaluate.accuracy.tasks",
      {"lambada", "piqa", "arc_easy", "arc_challenge", "storycloze", "mmlu", "squad", "imagenet"},
      nullptr,
      "what is answered, in percent: of the paper's zero-shot tables the accuracy "
      "they print, of squad F1, of imagenet top-1");
  tasks.arity = Arity::kList;
  tasks.default_text = "required";
  table.push_back(planned(tasks));
}

}  // namespace gptqb::schema
