// Keys of the section `evaluate`.
#include <algorithm>

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

// A key of decode_latency. Its windows are as long and as many as the task needs.
KeySpec decode_key(KeySpec spec, std::function<void(DecodeTask&, const json&)> set) {
  return with_bind(std::move(spec),
                   [set = std::move(set)](ResolvedSettings& settings, const json& value) {
                     EvaluatorSpec& of = evaluator(settings, "decode_latency");
                     set(of.decode, value);
                     of.seqlen = std::max<int64_t>(2, of.decode.given());
                     of.max_windows = of.decode.largest_batch();
                   });
}

void append_decode_latency(std::vector<KeySpec>& table) {
  const std::string latency = "evaluate.decode_latency.";
  const auto number = [&](const char* key, int64_t DecodeTask::*field, double min,
                          const std::string& meaning) {
    table.push_back(decode_key(
        with_range(with_default(plain(latency + key, KeyType::kInteger, Scope::kCell, "", meaning),
                                DecodeTask{}.*field),
                   min),
        [field](DecodeTask& task, const json& value) { task.*field = value.get<int64_t>(); }));
  };
  number("prompt", &DecodeTask::prompt, 0,
         "tokens before the first step; 0: the cache is empty at first, and the first token is "
         "given");
  number("generate", &DecodeTask::generate, 2,
         "tokens that are made; the first behind a prompt "
         "has no step of its own");
  table.push_back(decode_key(
      with_arity(with_range(with_default(plain(latency + "batch", KeyType::kInteger, Scope::kCell,
                                               "", "sequences at once; each number is measured"),
                                         1),
                            1),
                 Arity::kOneOrList),
      [](DecodeTask& task, const json& value) {
        task.batch = value.is_array() ? value.get<std::vector<int64_t>>()
                                      : std::vector<int64_t>{value.get<int64_t>()};
      }));
  number("warmup", &DecodeTask::warmup, 0, "steps before what is timed");
  number("repeats", &DecodeTask::repeats, 1, "passes that are timed");
  table.push_back(decode_key(
      with_default(plain(latency + "teacher_forced", KeyType::kBool, Scope::kCell, "",
                         "feed given tokens instead of generated ones"),
                   false),
      [](DecodeTask& task, const json& value) { task.teacher_forced = value.get<bool>(); }));
  table.push_back(decode_key(
      with_words(
          with_range(with_default(plain(latency + "check", KeyType::kInteger, Scope::kCell, "",
                                        "steps that are compared with recomputing without a "
                                        "cache before anything is timed; auto: up to 8, as "
                                        "far as seconds go; 0: none"),
                                  "auto"),
                     0),
          {"auto"}),
      [](DecodeTask& task, const json& value) {
        task.check = value.is_string() ? DecodeTask::kCheckAuto : value.get<int64_t>();
      }));
  table.push_back(with_bind(
      with_default(plain(latency + "dataset", KeyType::kDataset, Scope::kCell, "",
                         "where prompts and given tokens come from; random: ids of the vocabulary, "
                         "of a fixed seed"),
                   "random"),
      [](ResolvedSettings& settings, const json& value) {
        evaluator(settings, "decode_latency").datasets = {dataset_from_json(value)};
      }));
  table.push_back(planned(with_default(
      plain(latency + "perplexity", KeyType::kBool, Scope::kCell, "",
            "score the first calibration sample token by token, as the published loop"),
      false)));
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
  append_decode_latency(table);
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
