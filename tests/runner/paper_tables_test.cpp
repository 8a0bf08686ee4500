// experiments/paper/ against the collected tables: every published quality and time stands there
// once, with its value, source and confidence, and nothing else does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "common/atomic_file.h"
#include "runner/plan.h"
#include "runner/record.h"
#include "runner/schema.h"
#include "tests/runner/run_program.h"
#include "tests/support/shared.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is numbers, but no quality or time of a table, and why.
const std::pair<const char*, const char*> kNoCells[] = {
    {"(meta|setup_defaults|corpus_facts|run_to_run_and_setup_sensitivity|not_found)(/.*)?",
     "settings, facts about the text, and sentences"},
    {"cross_checks/.*", "second printings of values that stand elsewhere in the file"},
    {"two_bit_and_ternary/effective_bits/.*", "sizes"},
    {"llama1/size_and_memory/.*", "sizes and memory"},
    {"quantization_runtime/(opt|bloom)_minutes/.*", "the same times in minutes"},
    {"quantization_runtime/related/.*", "times of the text, not of a table"},
    {"generation_latency/.*/(speedup|gpus_fp16|gpus_int3)", "ratios, numbers of devices"},
    {"generation_latency/(memory|earlier_kernel)/.*", "sizes, ratios"},
    {"generation_latency/decompress_whole_matrix_ms/.*", "times of the text, not of a table"}};

// Where a value of the collection stands: the file, the metric, the model and the row, made of the
// parts of its path.
struct Rule {
  const char* path;
  const char* file;
  const char* metric;
  const char* model;
  const char* row;
};
const Rule kRules[] = {
    {"perplexity/(opt|bloom)/wikitext2/(.+)/(.+)", "$1_wikitext2", "perplexity.wikitext2", "$1-$3",
     "$2"},
    {"perplexity/(opt|bloom)/ptb/(.+)/(.+)", "$1_ptb", "perplexity.ptb-new", "$1-$3", "$2"},
    {"perplexity/(opt|bloom)/c4/(.+)/(.+)", "$1_c4", "perplexity.c4-new", "$1-$3", "$2"},
    {"perplexity_old_eval/opt_gptq_4bit_ptb_by_gpu/(.+)/(.+)", "opt_old_eval", "perplexity.ptb",
     "opt-$2", "gptq_4bit"},
    {"perplexity_old_eval/(bloom_7.1B)_fp16/.+/(.+)", "bloom_old_eval", "perplexity.$2", "$1",
     "fp16"},
    {"summary_175b/(.+)/(.+)/lambada", "summary_175b_lambada", "accuracy.lambada", "$1", "$2"},
    {"summary_175b/(.+)/(.+)/wikitext2", "summary_175b", "perplexity.wikitext2", "$1", "$2"},
    {"summary_175b/(.+)/(.+)/(ptb|c4)", "summary_175b", "perplexity.$3-new", "$1", "$2"},
    {"two_bit_and_ternary/gptq_2bit/(.+)/fp16", "two_bits", "perplexity.wikitext2", "$1", "fp16"},
    {"two_bit_and_ternary/gptq_2bit/(.+)/per_row_3bit", "two_bits", "perplexity.wikitext2", "$1",
     "gptq_3bit"},
    {"two_bit_and_ternary/gptq_2bit/(.+)/(g.+)", "two_bits", "perplexity.wikitext2", "$1",
     "gptq_2bit_$2"},
    {"two_bit_and_ternary/ternary_g8/(.+)", "two_bits", "perplexity.wikitext2", "$1",
     "gptq_ternarybit_g8"},
    {"two_bit_and_ternary/third_party.+/fp16/(.+)", "opt_2bit_g64", "perplexity.wikitext2",
     "opt-$1", "fp16"},
    {"two_bit_and_ternary/third_party.+/(rtn|gptq)/(.+)", "opt_2bit_g64", "perplexity.wikitext2",
     "opt-$2", "$1_2bit_g64"},
    {"llama1/wikitext2_.+/(.+)/(.+)", "llama", "perplexity.wikitext2", "llama-$2", "$1"},
    {"llama1/legacy_.+/(.+)/(.+)/(.+)", "llama_old_eval", "perplexity.$3", "llama-$1", "$2"},
    {"llama1/fp16_c4_new_eval/fp16/(.+)", "llama_c4", "perplexity.c4-new", "llama-$1", "fp16"},
    {"llama1/third_party_g128.+/(.+)/(.+)", "llama_g128", "perplexity.wikitext2", "llama-$2", "$1"},
    {"llama1/single_.+/(.+)/(.+)", "llama_one_sample", "decode.perplexity", "llama-$2", "$1"},
    {"llama2/wikitext2_context_2048/(.+)/(.+)", "llama2_g128", "perplexity.wikitext2", "llama-2-$2",
     "$1"},
    {"llama2/marlin.+/mmlu_(.+)/(.+)", "llama2_marlin", "accuracy.mmlu", "llama-2-$2", "$1"},
    {"llama2/marlin.+/(wikitext2|redpajama)_(.+)/(.+)", "llama2_marlin", "perplexity.$1",
     "llama-2-$3", "$2"},
    {"quantization_runtime/(opt|bloom)/(.+)", "runtime", "seconds.quantize_published_scope",
     "$1-$2", "gptq_3bit"},
    {"generation_latency/.+/fp16_ms", "latency", "decode.batch1.ms_per_token_extrapolated",
     "opt-175b", "fp16"},
    {"generation_latency/.+/int3_ms", "latency", "decode.batch1.ms_per_token", "opt-175b",
     "packed_3bit"},
    {"small_models/vision_top1/fp32/(.+)", "vision", "accuracy.imagenet", "$1", "fp16"},
    {"small_models/vision_top1/(.+)/(resnet.+)_(.bit)", "vision", "accuracy.imagenet", "$2",
     "$1_$3"},
    {"small_models/obq_against_gptq/baseline/bert_.+", "obq", "accuracy.squad", "bert-base-squad",
     "fp16"},
    {"small_models/obq_against_gptq/baseline/opt125m_.+", "obq", "perplexity.wikitext2", "opt-125m",
     "fp16"},
    {"small_models/obq_against_gptq/(.+)/bert_(.+)", "obq", "accuracy.squad", "bert-base-squad",
     "$1_$2"},
    {"small_models/obq_against_gptq/(.+)/opt125m_(.+)", "obq", "perplexity.wikitext2", "opt-125m",
     "$1_$2"},
    {"ablations/act_order_and_true_sequential_llama7b.+/plain", "act_order", "perplexity.wikitext2",
     "llama-7b", "gptq_4bit"},
    {"ablations/act_order_and_true_sequential_llama7b.+/with_both", "act_order",
     "perplexity.wikitext2", "llama-7b", "gptq_reorder_4bit"},
    {"ablations/act_order_opt66b_wikitext2/(.+)/plain", "act_order", "perplexity.wikitext2",
     "opt-66b", "$1"},
    {"ablations/act_order_opt66b_wikitext2/gptq_(.+)/act_order", "act_order",
     "perplexity.wikitext2", "opt-66b", "gptq_reorder_$1"},
    {"ablations/symmetric_.+/(.+)/sym", "symmetric", "perplexity.wikitext2", "$1",
     "gptq_symmetric_4bit_g128"},
    {"ablations/symmetric_.+/(.+)/asym", "symmetric", "perplexity.wikitext2", "$1",
     "gptq_4bit_g128"},
    {"zero_shot/(opt|bloom)/(.+)/(.+)/(.+)", "$1_$2", "accuracy.$2", "$1-$4", "$3"}};

// Folders of models: "opt-125M", "opt_175b", "bloom-7.1B", "llama-33B".
std::string folder_of(std::string model) {
  std::transform(model.begin(), model.end(), model.begin(), [](char c) { return std::tolower(c); });
  std::replace(model.begin(), model.end(), '_', '-');
  model = std::regex_replace(model, std::regex("^bloom-(\\d)\\.(\\d)b$"), "bloom-$1b$2");
  static const std::map<std::string, std::string> kOther = {
      {"llama-33b", "llama-30b"}, {"opt125m", "opt-125m"}, {"llama2", "llama-2-7b"}};
  const auto other = kOther.find(model);
  return other == kOther.end() ? model : other->second;
}

// As the README or the paper is called in the experiment files.
std::string source_text(const std::string& source) {
  static const std::pair<const char*, const char*> kNames[] = {
      {"g4l-readme-legacy", "GPTQ-for-LLaMa README of 2023-03-24"},
      {"g4l-readme-first", "GPTQ-for-LLaMa README of 2023-03-08"},
      {"g4l-readme", "GPTQ-for-LLaMa README"},
      {"gptq-readme", "GPTQ README"},
      {"gptq-issue-", "IST-DASLab/gptq, issue "},
      {"autogptq-pr-", "AutoGPTQ/AutoGPTQ, pull request "},
      {"marlin-readme", "Marlin README"},
      {"paper-v2 ", "GPTQ paper, "},
      {"awq-paper ", "AWQ paper, "},
      {"quipsharp-paper ", "QuIP# paper, "}};
  for (const auto& [key, name] : kNames)
    if (source.starts_with(key)) return name + source.substr(std::string(key).size());
  return source;
}

// A published value and where it must stand.
struct Published {
  std::string path;  // in the collection, for messages
  std::string key;   // file, metric, model, row
  double value = 0;
  std::string source;
  std::string confidence;
};

// The number that stands in `text`, times in seconds.
std::optional<double> value_of(const std::string& text) {
  static const std::regex kTime("([0-9.]+) (min|h)");
  std::smatch match;
  if (std::regex_match(text, match, kTime))
    return *parse_number(match[1]) * (match[2] == "h" ? 3600 : 60);
  return parse_number(text);
}

template <class Entries, class Pattern>
std::vector<std::regex> compiled(const Entries& entries, const Pattern& pattern) {
  std::vector<std::regex> result;
  for (const auto& each : entries) result.emplace_back(pattern(each));
  return result;
}

class Collection {
 public:
  explicit Collection(const YamlNode& root) { walk(root, "", "", ""); }

  std::vector<Published> published;
  std::vector<std::string> unknown;  // numbers that no rule knows

 private:
  void walk(const YamlNode& node, const std::string& path, std::string source,
            std::string confidence) {
    if (const YamlNode* here = node.find("source")) source = here->text;
    if (const YamlNode* here = node.find("confidence")) confidence = here->text;
    for (const YamlEntry& entry : node.entries)
      walk(entry.value, path.empty() ? entry.key : path + "/" + entry.key, source, confidence);
    for (size_t i = 0; i < node.items.size(); ++i)
      walk(node.items[i], path + "/" + std::to_string(i), source, confidence);
    if (!node.is_scalar()) return;
    const std::optional<double> value = value_of(node.text);
    if (!value) return;
    static const std::vector<std::regex> no_cells =
        compiled(kNoCells, [](const auto& each) { return each.first; });
    static const std::vector<std::regex> rules =
        compiled(kRules, [](const Rule& each) { return each.path; });
    for (const std::regex& pattern : no_cells)
      if (std::regex_match(path, pattern)) return;
    for (size_t i = 0; i < rules.size(); ++i) {
      const Rule& rule = kRules[i];
      std::smatch match;
      if (!std::regex_match(path, match, rules[i])) continue;
      const auto part = [&](const char* format) { return match.format(format); };
      std::string row = part(rule.row);
      if (row == "int4") row = "gptq_4bit_g128";
      published.push_back({path,
                           part(rule.file) + " " + part(rule.metric) + " " +
                               folder_of(part(rule.model)) + " " + row,
                           *value, source_text(source), confidence});
      return;
    }
    unknown.push_back(path);
  }
};

// "gptq_reorder_3bit_g128": as rows are called in the collection.
std::string row_of(const Cell& cell, const std::string& file) {
  if (const std::string bits = cell.setting("model.synthetic.packed.bits"); !bits.empty())
    return "packed_" + bits + "bit";
  if (cell.dense()) return "fp16";
  std::string row =
      cell.method().name == "external" ? cell.setting("method.command") : cell.method().name;
  const bool about_order = file == "llama_g128" || file == "llama2_g128" || file == "act_order";
  if (about_order && cell.method().act_order) row += "_reorder";
  if (file == "symmetric" && cell.quant().symmetric) row += "_symmetric";
  row += "_" + cell.setting("quant.bits") + "bit";
  if (cell.quant().group_size > 0) row += "_g" + cell.setting("quant.group_size");
  return row;
}

std::vector<fs::path> paper_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(GPTQB_SOURCE_DIR "/experiments/paper"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Plan plan_of(const Experiment& experiment) {
  return make_plan(experiment, {.methods = {"none", "rtn", "gptq", "obq", "external"},
                                .evaluators = {"perplexity", "divergence", "decode_latency"}});
}

std::vector<Plan> plans(const std::string& tier) {
  std::vector<Plan> result;
  for (const fs::path& file : paper_files())
    for (const Experiment& experiment : load_experiments(file, {.set = {}, .tier = tier}))
      result.push_back(plan_of(experiment));
  return result;
}

struct Stated {
  const Expectation* expectation = nullptr;
  bool met = false;
};

TEST(PaperTables, HoldEveryPublishedQualityAndTime) {
  const fs::path path = test::shared_root() / "reference" / "paper_tables.yaml";
  GPTQB_REQUIRE_PATH(path);
  Faults faults;
  const std::vector<YamlNode> documents = parse_yaml(read_file(path), path.string(), faults);
  faults.raise(path.string());
  const Collection collection(documents.at(0));
  EXPECT_THAT(collection.unknown, ::testing::IsEmpty()) << "numbers that no rule knows";

  const std::vector<Plan> tables = plans("full");
  std::multimap<std::string, Stated> stated;
  for (const Plan& plan : tables) {
    const std::string file = fs::path(plan.file).stem().string();
    for (const PlannedCell& planned : plan.cells) {
      const Cell& cell = planned.cell;
      const std::string model = cell.model().synthetic.asked()
                                    ? cell.model().synthetic.like
                                    : fs::path(cell.model().path).filename().string();
      for (const Expectation& expectation : planned.expectations)
        stated.emplace(file + " " + expectation.metric + " " + model + " " + row_of(cell, file),
                       Stated{&expectation});
    }
  }
  for (const Published& value : collection.published) {
    auto [first, last] = stated.equal_range(value.key);
    const auto found = std::find_if(first, last, [&](const auto& entry) {
      const Expectation& expectation = *entry.second.expectation;
      return !entry.second.met && std::abs(*expectation.value - value.value) < 1e-9 &&
             expectation.source == value.source &&
             expectation.confidence == std::regex_replace(value.confidence,
                                                          std::regex("^verified-in-source$"),
                                                          "verified in the source");
    });
    if (found == last)
      ADD_FAILURE() << value.path << ": expected " << value.value << " of " << value.source
                    << " at " << value.key << ", got " << std::distance(first, last)
                    << " other values there";
    else
      found->second.met = true;
  }
  for (const auto& [key, entry] : stated)
    EXPECT_TRUE(entry.met) << key << ": " << *entry.expectation->value << " of "
                           << entry.expectation->source << " is not in the collection";
  EXPECT_EQ(stated.size(), collection.published.size());
  EXPECT_GT(stated.size(), 900u);
  // What `gptq-bench plan experiments/paper/*.yaml` says, all tiers together.
  EXPECT_THAT(plan_totals(plans("")),
              HasSubstr("; " + std::to_string(collection.published.size()) + " expected values"));
}

// Oddities of the printed tables stay visible beside the value.
TEST(PaperTables, NoteTheOdditiesOfTheTables) {
  std::vector<std::string> notes;
  for (const Plan& plan : plans("full"))
    for (const PlannedCell& planned : plan.cells)
      for (const Expectation& expectation : planned.expectations)
        if (!expectation.note.empty())
          notes.push_back(plan.name + " " + value_text(*expectation.value) + ": " +
                          expectation.note);
  for (const char* note :
       {"paper_summary_175b 12.68: Table 9 prints 12.86",
        "paper_opt_ptb 12.86: Table 5 prints 12.68",
        "paper_opt_wikitext2 27.65: Table 8 prints 27.66", "paper_obq 27.66: Table 3 prints 27.65",
        "paper_opt_arc_easy 59.97: 9 points above its fp16 50.93: probably a misprint",
        "paper_bloom_arc_easy 45.44: above its fp16 41.71",
        "paper_llama_old_eval 21.21: from the README of 2023-03-08: this one repeats the row of "
        "7B"})
    EXPECT_THAT(notes, ::testing::Contains(note));
}

// Without weights and data, every cell says what is missing; what the program cannot do yet says
// that instead.
TEST(PaperTables, CellsThatCannotRunSayWhy) {
  const test::TemporaryFolder nothing;
  std::set<std::string> unsupported, absent;
  for (Plan& plan : plans("full")) {
    look_for_inputs(plan, nothing.path(), nothing.path());
    for (const PlannedCell& planned : plan.cells) {
      if (!planned.skip_reason.empty()) {
        EXPECT_THAT(planned.skip_reason, StartsWith("not supported yet: "));
        unsupported.insert(plan.name);
      } else if (!planned.cell.model().synthetic.asked()) {
        ASSERT_FALSE(planned.missing.empty()) << plan.name;
        EXPECT_THAT(planned.missing[0], StartsWith("model: expected the Hugging Face folder of"));
        absent.insert(plan.name);
      }
    }
  }
  for (const char* name :
       {"paper_opt_lambada", "paper_bloom_arc_easy", "paper_vision", "paper_obq",
        "paper_llama_one_sample", "paper_summary_175b_lambada", "paper_llama2_marlin"})
    EXPECT_TRUE(unsupported.contains(name)) << name;
  for (const char* name : {"paper_opt_wikitext2", "paper_llama", "paper_obq", "paper_two_bits"})
    EXPECT_TRUE(absent.contains(name)) << name;
}

// Tiers that anyone can run hold no published number: those are of other models.
TEST(PaperTables, EveryTableHasASmokeTierOfTheEmbeddedModel) {
  std::set<std::string> smoked;
  for (const Plan& plan : plans("smoke")) {
    smoked.insert(plan.name);
    for (const PlannedCell& planned : plan.cells) {
      EXPECT_EQ(planned.skip_reason, "") << plan.name;
      EXPECT_TRUE(planned.expectations.empty()) << plan.name;
      const ModelSpec& model = planned.cell.model();
      EXPECT_TRUE(planned.cell.measures_kernels() || model.synthetic.asked() ||
                  model.path_unexpanded == "${GPTQ_BENCH_SHARE:-.}/assets/quickstart-model")
          << plan.name;
    }
  }
  EXPECT_EQ(smoked.size(), paper_files().size());
  for (const Plan& plan : plans("base"))
    for (const PlannedCell& planned : plan.cells) EXPECT_EQ(planned.skip_reason, "") << plan.name;
}

// What docs and CI call: every table in one command, on the CPU.
TEST(PaperTables, SmokeTiersRunOnTheCpu) {
  setenv("GPTQ_BENCH_SHARE", GPTQB_SOURCE_DIR, 1);
  const test::TemporaryFolder results;
  std::vector<std::string> command = {"run", "--tier", "smoke", "--output",
                                      results.path().string()};
  for (const fs::path& file : paper_files()) command.push_back(file.string());
  const test::Outcome outcome = test::run_program(command);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  size_t cells = 0;
  for (const Plan& plan : plans("smoke"))
    for (const Record& record : load_records(results.path() / plan.name).records) {
      EXPECT_EQ(record.status, CellStatus::kOk) << plan.name << ": " << record.reason;
      ++cells;
    }
  EXPECT_GT(cells, 70u);
}

}  // namespace
}  // namespace gptqb
