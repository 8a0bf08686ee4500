// The table of keys: values are taken as written or refused, and every typed field can be reached.
#include "runner/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <fstream>
#include <locale>
#include <regex>
#include <set>
#include <sstream>

#include "common/atomic_file.h"
#include "methods/quantizer.h"
#include "tests/runner/other_value.h"
#include "tests/support/message.h"
#include "tests/support/shared.h"

namespace gptqb {
namespace {

using test::other_value;

using nlohmann::json;
using test::message_of;
using ::testing::HasSubstr;

// The canonical value of `text` for `key`, or the fault's sentence.
std::string read(const std::string& key, const std::string& text) {
  Faults faults;
  const auto documents = parse_yaml("v: " + text, "f", faults);
  std::optional<json> value;
  if (faults.empty()) value = convert(*find_key(key), *documents.at(0).find("v"), faults);
  if (value) return value->dump();
  return message_of([&] { faults.raise("f"); });
}

TEST(Schema, NumbersInEverySpelling) {
  for (const char* text : {"1e-2", "1E-2", "1.e-2", ".01", "1.0e-02", "0.01", "+0.01", "10e-3"})
    EXPECT_EQ(read("method.damping", text), "0.01") << text;
  EXPECT_EQ(read("method.damping", "1"), "1.0");
  EXPECT_EQ(read("method.damping", "0"), "0.0");
}

TEST(Schema, TextThatIsNoNumberIsRefused) {
  const std::string expected = "[f:1:4 method.damping] expected a number from 0 to 1, got ";
  EXPECT_EQ(read("method.damping", "\"0.01\""),
            expected + "the quoted text '0.01'. Write it without quotes");
  EXPECT_EQ(read("method.damping", "1_0"), expected + "'1_0'. Write it without separators");
  EXPECT_EQ(read("method.damping", "0,01"), expected + "'0,01'. Write it without separators");
  EXPECT_EQ(read("method.damping", ".inf"), expected + "'.inf'");
  EXPECT_EQ(read("method.damping", ".nan"), expected + "'.nan'");
  EXPECT_EQ(read("method.damping", "1.5"), expected + "'1.5'");
  EXPECT_EQ(read("method.damping", "-1e-9"), expected + "'-1e-9'");
  EXPECT_EQ(read("method.damping", "[0.01]"), expected + "a list");
  EXPECT_EQ(read("method.damping", ""),
            "[f:1:1 method.damping] expected a number from 0 to 1, got nothing");
  EXPECT_EQ(read("method.damping", "1e999"), expected + "'1e999'");
}

TEST(Schema, IntegersAreNeverOctalHexOrRounded) {
  const std::string expected = "[f:1:4 calibration.seed] expected an integer >= 0, got ";
  EXPECT_EQ(read("calibration.seed", "10"), "10");
  EXPECT_EQ(read("calibration.seed", "010"),
            expected + "'010'. Leading zeros mean octal to some programs: leave them out");
  EXPECT_EQ(read("calibration.seed", "08"),
            expected + "'08'. Leading zeros mean octal to some programs: leave them out");
  EXPECT_EQ(read("calibration.seed", "0o13"), expected + "'0o13'. Write it in decimal");
  EXPECT_EQ(read("calibration.seed", "0xB"), expected + "'0xB'. Write it in decimal");
  EXPECT_EQ(read("calibration.seed", "2.5"),
            expected + "'2.5'. Write it without point or exponent");
  EXPECT_EQ(read("calibration.seed", "1e3"),
            expected + "'1e3'. Write it without point or exponent");
  EXPECT_EQ(read("calibration.seed", "-1"), expected + "'-1'");
  EXPECT_EQ(read("calibration.seed", "99999999999999999999"), expected + "'99999999999999999999'");
}

TEST(Schema, BooleansAreTrueAndFalseOnly) {
  EXPECT_EQ(read("method.act_order", "true"), "true");
  EXPECT_EQ(read("method.act_order", "false"), "false");
  const std::string expected = "[f:1:4 method.act_order] expected true or false, got ";
  for (const char* yes : {"yes", "on", "y", "True", "YES"})
    EXPECT_EQ(read("method.act_order", yes),
              expected + "'" + yes + "'. Programs disagree on that spelling: write true");
  for (const char* no : {"no", "off", "n", "FALSE"})
    EXPECT_EQ(read("method.act_order", no),
              expected + "'" + no + "'. Programs disagree on that spelling: write false");
  EXPECT_EQ(read("method.act_order", "sideways"), expected + "'sideways'");
  EXPECT_EQ(read("method.act_order", "\"true\""),
            expected + "the quoted text 'true'. Write it without quotes");
}

TEST(Schema, TextKeysKeepBooleanWords) {
  EXPECT_EQ(read("executor.partition", "no"), "\"no\"");
  EXPECT_EQ(read("executor.partition", "on"), "\"on\"");
  EXPECT_EQ(read("executor.time", "01:30:00"), "\"01:30:00\"");
}

TEST(Schema, BitsAndGroupSize) {
  EXPECT_EQ(read("quant.bits", "3"), "3");
  EXPECT_EQ(read("quant.bits", "ternary"), "\"ternary\"");
  EXPECT_EQ(read("quant.bits", "5"),
            "[f:1:4 quant.bits] expected one of 2, 3, 4, 8, ternary; got '5'");
  EXPECT_THAT(read("quant.bits", "\"4\""), HasSubstr("Write it without quotes"));
  EXPECT_EQ(read("quant.group_size", "-1"), "-1");
  EXPECT_EQ(read("quant.group_size", "1"), "1");
  EXPECT_EQ(read("quant.group_size", "0"),
            "[f:1:4 quant.group_size] expected -1 or an integer >= 1, got '0'");
  EXPECT_EQ(read("quant.group_size", "-2"),
            "[f:1:4 quant.group_size] expected -1 or an integer >= 1, got '-2'");
}

TEST(Schema, ChoiceSuggestsTheNearestWord) {
  EXPECT_EQ(read("method.name", "gtpq"),
            "[f:1:4 method.name] expected one of none, rtn, gptq, awq, llm_int8, external, obq; "
            "got 'gtpq'. Did you mean 'gptq'?");
  EXPECT_THAT(read("compat.group_grid", "[fresh]"),
              HasSubstr("expected one of fresh, reference; got a list"));
}

TEST(Schema, Datasets) {
  EXPECT_EQ(read("calibration.dataset", "wikitext2@train-head"), "\"wikitext2@train-head\"");
  EXPECT_THAT(read("calibration.dataset", "wikitxt2"), HasSubstr("Did you mean 'wikitext2'?"));
  EXPECT_EQ(read("calibration.dataset", "{name: mine, source: \"jsonl:/x/a.jsonl\"}"),
            R"({"field":"text","join":"\n\n","name":"mine","source":"jsonl:/x/a.jsonl"})");
  EXPECT_EQ(read("calibration.dataset", "{name: mine, source: \"csv:/x\"}"),
            "[f:1:25 calibration.dataset.source] expected text:PATH, jsonl:PATH or tokens:PATH; "
            "got 'csv:/x'");
  EXPECT_THAT(read("calibration.dataset", "{name: c4, source: \"text:/x\"}"),
              HasSubstr("got 'c4', which is a published dataset"));
  EXPECT_THAT(read("calibration.dataset", "{name: mine, sourse: \"text:/x\"}"),
              HasSubstr("Did you mean 'source'?"));
  EXPECT_THAT(read("calibration.dataset", "{name: mine, source: \"text:/x\", field: body}"),
              HasSubstr("expected `field` only with source jsonl:PATH"));
  EXPECT_EQ(
      read("calibration.dataset", "[{dataset: c4, share: 0.5}, {dataset: wikitext2, share: 0.5}]"),
      R"([{"dataset":"c4","share":0.5},{"dataset":"wikitext2","share":0.5}])");
  EXPECT_THAT(
      read("calibration.dataset", "[{dataset: c4, share: 0.5}, {dataset: ptb, share: 0.4}]"),
      HasSubstr("expected shares that add up to 1, got 0.9"));
}

TEST(Schema, PathsKeepVariablesOtherValuesDoNot) {
  setenv("GPTQB_TEST_BITS", "3", 1);
  unsetenv("GPTQB_TEST_UNSET");
  EXPECT_EQ(read("quant.bits", "\"${GPTQB_TEST_BITS}\""), "3");
  EXPECT_EQ(read("model.path", "${GPTQB_TEST_BITS}/x"), "\"${GPTQB_TEST_BITS}/x\"");
  EXPECT_THAT(
      read("model.path", "${GPTQB_TEST_UNSET}/x"),
      HasSubstr("[f:1:4 model.path] expected the environment variable GPTQB_TEST_UNSET to be set"));
}

TEST(Schema, RulesOfOverrides) {
  EXPECT_EQ(read("overrides", "[{match: \"*.down_proj\", quant.bits: 8}, {match: a, skip: true}]"),
            R"([{"match":"*.down_proj","quant.bits":8},{"match":"a","skip":true}])");
  EXPECT_EQ(read("overrides", "[{match: a, quant: {bits: 8}}]"),
            R"([{"match":"a","quant.bits":8}])");
  EXPECT_THAT(read("overrides", "[{match: a, quant.bit: 8}]"),
              HasSubstr("Did you mean 'quant.bits'?"));
  EXPECT_THAT(read("overrides", "[{match: a, bits: 8}]"), HasSubstr("Did you mean 'quant.bits'?"));
  EXPECT_THAT(
      read("overrides", "[{match: a, method.damping: 0.1}]"),
      HasSubstr("expected match, skip, method.name or a key of quant, got 'method.damping'"));
  EXPECT_THAT(read("overrides", "[{match: lm_head, quant.head: 8}]"),
              HasSubstr("or a key of quant, got 'quant.head'"))
      << "no layer has a head";
  EXPECT_THAT(read("overrides", "[{quant.bits: 8}]"), HasSubstr("got a rule without one"));
  EXPECT_THAT(read("overrides", "[{match: a}]"), HasSubstr("beside `match`, got nothing"));
  EXPECT_THAT(read("overrides", "[{match: a, skip: true, quant.bits: 8}]"),
              HasSubstr("expected `skip: true` alone"));
  EXPECT_THAT(read("overrides", "[{match: a, quant.bits: 5}]"),
              HasSubstr("[f:1:28 quant.bits] expected one of 2, 3, 4, 8, ternary; got '5'"));
}

TEST(Schema, ReadingAndPrintingIgnoreTheLocale) {
  // A numeric facet with a decimal comma, as German systems have.
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  EXPECT_EQ(read("method.damping", "0.25"), "0.25");
  EXPECT_EQ(read("calibration.samples", "12345"), "12345");
  EXPECT_EQ(value_text(json(0.25)), "0.25");
  std::locale::global(before);
}

TEST(Schema, UnknownKeySuggestsAlsoFromOtherSections) {
  EXPECT_THAT(unknown_key("quant", "group_sise"), HasSubstr("Did you mean 'quant.group_size'?"));
  EXPECT_THAT(unknown_key("method", "group_size"), HasSubstr("Did you mean 'quant.group_size'?"));
  EXPECT_THAT(unknown_key("", "samples"), HasSubstr("Did you mean 'calibration.samples'?"));
  EXPECT_THAT(unknown_key("", "modle"), HasSubstr("Did you mean 'model'?"));
  EXPECT_THAT(unknown_key("", "zzzzzz"), HasSubstr("`gptq-bench schema` lists all keys"));
}

// ---- every field of the option structs has a key of its own ----

// Converts to anything, to count the members of an aggregate.
struct Anything {
  template <class T>
  operator T() const;
};

template <class T, class... Args>
constexpr size_t member_count() {
  if constexpr (requires { T{Args{}..., Anything{}}; })
    return member_count<T, Args..., Anything>();
  else
    return sizeof...(Args);
}

// Binding one key after another, each must change the struct, and there must be as many keys as
// fields.
template <class Part>
void expect_all_fields_have_keys(const std::string& section, Part ResolvedSettings::*part) {
  std::vector<Part> changed;
  size_t reached = 0;
  for (const KeySpec& spec : key_table()) {
    if (spec.key.compare(0, section.size(), section) != 0 || !spec.bind) continue;
    // Bits of the model's ends, beside the struct they share all else of.
    if (spec.key == "quant.head" || spec.key == "quant.embedding") continue;
    ResolvedSettings settings;
    spec.bind(settings, other_value(spec));
    EXPECT_FALSE(settings.*part == Part{}) << spec.key << " changes nothing";
    for (const Part& earlier : changed)
      EXPECT_FALSE(settings.*part == earlier) << spec.key << " shares a field";
    changed.push_back(settings.*part);
    reached += spec.key == "method.order" ? 2 : 1;  // an order and its seed
  }
  EXPECT_EQ(reached, member_count<Part>()) << section;
}

TEST(Schema, EveryFieldOfTheConfigsIsReachedByOneKey) {
  expect_all_fields_have_keys("quant.", &ResolvedSettings::quant);
  expect_all_fields_have_keys("method.", &ResolvedSettings::method);
  expect_all_fields_have_keys("compat.", &ResolvedSettings::compat);
}

TEST(Schema, KeysAreDistinctAndPrinted) {
  std::set<std::string> keys;
  const std::string markdown = schema_markdown();
  for (const KeySpec& spec : key_table()) {
    EXPECT_TRUE(keys.insert(spec.key).second) << spec.key;
    EXPECT_THAT(markdown, HasSubstr("| `" + spec.key + "` | "));
    EXPECT_FALSE(spec.meaning.empty()) << spec.key;
    EXPECT_FALSE(spec.default_text.empty()) << spec.key;
  }
  EXPECT_THAT(markdown, HasSubstr("| `method.damping` | number 0..1 | 0.01 |"));
  EXPECT_THAT(markdown, HasSubstr("| `quant.group_size` | -1, integer >= 1 | 128 |"));
  EXPECT_THAT(markdown, HasSubstr("| `quant.bits` | 2, 3, 4, 8, ternary | 4 | bits of a code"));
  EXPECT_THAT(markdown, HasSubstr("| `method.order` | natural, act, reverse, greedy, random:SEED | "
                                  "natural; obq: greedy |"));
}

// One line in methods.def is enough for an experiment to name a method.
TEST(Schema, EveryMethodCanBeNamed) {
  EXPECT_EQ(find_key("method.name")->words, quantizers().names());
}

// docs/keys.md is what `gptq-bench schema` prints behind three lines of heading.
TEST(Schema, TheDocumentedKeysAreThese) {
  const std::string document = read_file(GPTQB_SOURCE_DIR "/docs/keys.md");
  const size_t table = document.find("| key |");
  ASSERT_NE(table, std::string::npos);
  EXPECT_EQ(document.substr(table), schema_markdown())
      << "gptq-bench schema prints another table than docs/keys.md holds: put it there";
}

// ---- agreement with the design's table ----

// Keys of a first column such as "`model.dtype`, `.backend` / `.seed`": a leading dot takes the
// section before it.
std::vector<std::string> keys_of_cell(const std::string& cell) {
  std::vector<std::string> keys;
  std::string section;
  static const std::regex kQuoted("`[^`]*`"), kKey("[a-z_.]+");
  for (std::sregex_iterator it(cell.begin(), cell.end(), kQuoted), end; it != end; ++it) {
    const std::string quoted = it->str().substr(1, it->str().size() - 2);
    for (std::sregex_iterator part(quoted.begin(), quoted.end(), kKey); part != end; ++part) {
      std::string key = part->str();
      if (key[0] == '.') {
        key = section + key;
      } else if (key.find('.') != std::string::npos) {
        section = key.substr(0, key.rfind('.'));
      }
      keys.push_back(key);
    }
  }
  return keys;
}

TEST(Schema, AgreesWithTheDesign) {
  const auto path = test::shared_root() / "design" / "keys.md";
  GPTQB_REQUIRE_PATH(path);
  std::ifstream stream(path);
  std::string line;
  std::set<std::string> design;
  while (std::getline(stream, line)) {
    if (line.compare(0, 3, "| `") != 0) continue;
    const std::string first = line.substr(2, line.find('|', 2) - 2);
    for (const std::string& key : keys_of_cell(first)) {
      design.insert(key);
      EXPECT_TRUE(find_key(key) != nullptr || is_section(key)) << "keys.md has " << key;
    }
  }
  EXPECT_GT(design.size(), 60u);
  // Below these the design gives the keys in words.
  const std::vector<std::string> sections = {"evaluate.", "kernels.", "save.", "executor.",
                                             "model.synthetic."};
  for (const KeySpec& spec : key_table()) {
    bool worded = false;
    for (const std::string& section : sections)
      worded = worded || spec.key.compare(0, section.size(), section) == 0;
    // Found after keys.md was written: the published RTN rounds in the model's dtype, and so do
    // attention scores of BLOOM; claims of practice end in a sentence.
    const bool added = spec.key == "claim" || spec.key == "compat.rtn_dtype" ||
                       spec.key == "method.step_by_step" || spec.key == "compat.forward";
    EXPECT_TRUE(worded || added || design.count(spec.key) > 0) << spec.key << " is not in keys.md";
  }
}

TEST(Schema, DefaultsAgreeWithTheDesign) {
  // Independent of the structs: the values of keys.md.
  const std::vector<std::pair<const char*, const char*>> defaults = {
      {"tier", "full"},
      {"model.dtype", "auto"},
      {"model.checkpoint_format", "auto"},
      {"model.backend", "auto"},
      {"calibration.dataset", "c4"},
      {"calibration.samples", "128"},
      {"calibration.seqlen", "2048"},
      {"calibration.seed", "0"},
      {"calibration.heldout", "8"},
      {"calibration.draw", "reference"},
      {"method.damping", "0.01"},
      {"method.block_size", "128"},
      {"method.act_order", "false"},
      {"method.static_groups", "false"},
      {"method.true_sequential", "false"},
      {"method.solver", "fast"},
      {"method.compute", "float32"},
      {"method.precision", "tf32x3"},
      {"method.on_failure", "raise_damping"},
      {"method.rows", "all"},
      {"method.layers", "*"},
      {"method.inputs", "quantized"},
      {"resume", "true"},
      {"method.outlier_first", "false"},
      {"method.awq_protocol", "matched"},
      {"method.alpha_grid", "20"},
      {"method.clip", "true"},
      {"method.clip_steps", "20"},
      {"method.clip_shrink", "0.5"},
      {"method.outlier_threshold", "6"},
      {"quant.bits", "4"},
      {"quant.group_size", "128"},
      {"quant.symmetric", "false"},
      {"quant.grid_search", "none"},
      {"quant.scale_dtype", "float16"},
      {"quant.grid_norm", "2.4"},
      {"quant.grid_steps", "100"},
      {"quant.grid_shrink", "0.8"},
      {"quant.head", "none"},
      {"quant.embedding", "none"},
      {"compat.base", "default"},
      {"compat.group_grid", "fresh"},
      {"compat.one_sided", "full_range"},
      {"compat.rtn_groups", "honour"},
      {"compat.rtn_dtype", "float32"},
      {"compat.dead_columns", "exclude"},
      {"compat.loss_dtype", "float32"},
      {"compat.forward", "fused"},
      {"evaluate.perplexity.seqlen", "2048"},
      {"evaluate.perplexity.max_windows", "0"},
      {"evaluate.perplexity.batch", "auto"},
      {"evaluate.perplexity.bos", "tokenizer"},
      {"evaluate.decode_latency.prompt", "0"},
      {"evaluate.decode_latency.generate", "128"},
      {"evaluate.decode_latency.batch", "1"},
      {"evaluate.decode_latency.warmup", "3"},
      {"evaluate.decode_latency.repeats", "1"},
      {"evaluate.decode_latency.teacher_forced", "false"},
      {"evaluate.decode_latency.check", "auto"},
      {"evaluate.decode_latency.dataset", "random"},
      {"executor.name", "local"},
      {"save.shard_size", "5"}};
  for (const auto& [key, text] : defaults) {
    ASSERT_NE(find_key(key), nullptr) << key;
    EXPECT_EQ(value_text(find_key(key)->default_value), text) << key;
  }
}

}  // namespace
}  // namespace gptqb
