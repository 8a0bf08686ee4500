// Models and data that a plan needs and the machine lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runner/plan.h"
#include "tests/runner/planned.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(MissingInputs, SaysWhatWhereAndHow) {
  const TemporaryFolder folder;
  const fs::path& base = folder.path();
  fs::create_directories(base / "m");
  const std::string text =
      "name: p\nmodel: {path: m}\nmethod: {name: gptq}\ncalibration: {dataset: wikitext2}\n"
      "evaluate: [{perplexity: {datasets: [c4, {name: o, source: \"text:o.txt\"}]}}]\n";
  Plan made = make_plan(parse_experiments(text, "p.yaml").at(0), build());
  std::vector<std::string> missing = missing_inputs(made.cells[0].cell, base / "data", base);
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_EQ(missing[0], "model: expected the Hugging Face folder of m at " + (base / "m").string() +
                            ", got a folder without config.json. Put config.json, the safetensors "
                            "and the tokenizer files of "
                            "that model there (by `huggingface-cli download`, or a copy)");
  EXPECT_THAT(missing[1], HasSubstr("expected the file wikitext-2-raw/wiki.train.raw"));
  EXPECT_THAT(missing[2], HasSubstr("expected the file c4/en/c4-validation.00000-of-00008.json"));
  EXPECT_THAT(missing[3], HasSubstr("expected the file of source 'text:o.txt'"));

  std::ofstream(base / "m" / "config.json") << "{}";
  missing = missing_inputs(made.cells[0].cell, base / "data", base);
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_EQ(missing[0],
            "model: expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt in " +
                (base / "m").string() +
                ", got none of them. Copy the tokenizer's files beside the weights");
  std::ofstream(base / "m" / "tokenizer.json") << "{}";
  std::ofstream(base / "o.txt") << "text";
  fs::create_directories(base / "data/c4/en");
  std::ofstream(base / "data/c4/en/c4-validation.00000-of-00008.json.gz") << "only looked for";
  missing = look_for_inputs(made, base / "data", base);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0], HasSubstr("wiki.train.raw"));
  EXPECT_EQ(made.cells[0].missing, missing);
  EXPECT_THAT(plan_table(made), HasSubstr("1 cell, 0 to run, 0 skipped, 1 not run as inputs"));
  EXPECT_THAT(plan_table(made), HasSubstr("not run: inputs are missing"));
}

// A wrong `field` is told by the plan, not by the first cell that runs; one that is right costs a
// line of the file, not all of it.
TEST(MissingInputs, AFieldThatTheFirstDocumentLacksIsNamed) {
  const TemporaryFolder folder;
  const fs::path& base = folder.path();
  folder.write("m/config.json", "{}");
  folder.write("m/tokenizer.json", "{}");
  folder.write("mails.jsonl", "\n{\"body\": \"a text\", \"id\": 7}\nthis is no JSON\n");
  const auto missing_with = [&](const std::string& key) {
    const std::string dataset = "{name: mails, source: \"jsonl:mails.jsonl\", field: " + key + "}";
    Plan made = make_plan(
        parse_experiments(
            "name: p\nmodel: {path: m}\nmethod: {name: gptq}\ncalibration: {dataset: " + dataset +
                "}\nevaluate: [{perplexity: {datasets: [" + dataset + "]}}]\n",
            "p.yaml")
            .at(0),
        build());
    return look_for_inputs(made, base / "data", base);
  };
  EXPECT_THAT(missing_with("body"), testing::IsEmpty());
  const std::string where = "data: [" + (base / "mails.jsonl").string() + ":2] ";
  EXPECT_THAT(missing_with("text"),
              testing::ElementsAre(where + "expected the key 'text', got only body, id. Name the "
                                           "key that holds the text with `field`"));
  EXPECT_THAT(missing_with("id"),
              testing::ElementsAre(where + "expected text under 'id', got a JSON number"));
}

// Models of the paper, and where each is published.
TEST(MissingInputs, SayWhereThePapersModelsAre) {
  const std::vector<std::pair<std::string, std::string>> sources = {
      {"opt-125m", "files of facebook/opt-125m there"},
      {"opt-175b", "Meta hands its weights out on request"},
      {"bloom-7b1", "files of bigscience/bloom-7b1 there"},
      {"bloom-176b", "files of bigscience/bloom there"},
      {"llama-30b", "files of huggyllama/llama-30b there"},
      {"llama-2-7b", "files of meta-llama/Llama-2-7b-hf there"},
      {"smollm2-135m", "scripts/get_smollm2 makes it"},
      {"mine", "files of that model there"}};
  for (const auto& [name, words] : sources) {
    const auto cell =
        Cell::from_json(R"({"model.path": "/nowhere/)" + name + R"(", "method.name": "none"})");
    const auto missing = missing_inputs(cell, "", "");
    ASSERT_EQ(missing.size(), 1u);
    EXPECT_THAT(missing[0], HasSubstr(words));
  }
}

TEST(MissingInputs, NamesTheVariableOfThePath) {
  unsetenv("GPTQB_TEST_UNSET");
  const auto experiments = parse_experiments(
      "name: p\nmodel: {path: \"${GPTQB_TEST_UNSET:-/nowhere}/m\"}\nmethod: {name: none}\n",
      "p.yaml");
  Plan made = make_plan(experiments.at(0), build());
  const auto missing = look_for_inputs(made, "", "");
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0], HasSubstr("at /nowhere/m, got none"));
  EXPECT_THAT(missing[0],
              HasSubstr("or set the variable: model.path is ${GPTQB_TEST_UNSET:-/nowhere}/m"));
}

}  // namespace
}  // namespace gptqb::test
