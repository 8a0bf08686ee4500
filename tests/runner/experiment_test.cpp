// Reading experiment files: what is refused, where the message points, and that all faults come at
// once.
#include "runner/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/message.h"

namespace gptqb {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kGood = R"(name: small
model: {path: /m}
method: {name: gptq}
)";

Experiment parse(const std::string& text, const LoadOptions& options = {}) {
  const auto experiments = parse_experiments(text, "e.yaml", options);
  EXPECT_EQ(experiments.size(), 1u);
  return experiments.at(0);
}

std::string fault_of(const std::string& text, const LoadOptions& options = {}) {
  return message_of([&] { parse_experiments(text, "e.yaml", options); });
}

TEST(Experiment, ReadsSectionsAndShorthands) {
  const Experiment read =
      parse(std::string(kGood) + R"(calibration: {dataset: wikitext2@train-head, samples: 4}
quant: {bits: 3}
compat: reference
evaluate:
  - perplexity: {datasets: [builtin], seqlen: 64}
sweep:
  quant.group_size: [-1, 32]
seeds: [0, 1]
resume: false
)");
  EXPECT_EQ(read.name, "small");
  EXPECT_EQ(read.tier, "full");
  EXPECT_EQ(read.base.at("quant.bits").value, 3);
  EXPECT_EQ(read.base.at("compat.base").value, "reference");
  EXPECT_EQ(read.base.at("evaluate.perplexity.seqlen").value, 64);
  EXPECT_EQ(read.base.at("resume").value, false);
  ASSERT_EQ(read.sweep.size(), 1u);
  EXPECT_EQ(read.sweep[0].second[1].value, 32);
  EXPECT_EQ(read.seeds.size(), 2u);
  EXPECT_EQ(read.base.at("quant.bits").position.text(), "e.yaml:5:15");
}

TEST(Experiment, UnknownKeyHasPlaceAndSuggestion) {
  EXPECT_EQ(fault_of(std::string(kGood) + "quant:\n  group_sise: 32\n"),
            "[e.yaml:5:3 quant.group_sise] expected one of bits, group_size, symmetric, "
            "grid_search, scale_dtype, "
            "grid_norm, grid_steps, grid_shrink, head, embedding; got 'group_sise'. Did you mean "
            "'quant.group_size'?");
}

TEST(Experiment, AKeySweptTwiceIsAFault) {
  EXPECT_THAT(fault_of(std::string(kGood) + "sweep:\n  quant.bits: [3, 4]\n  quant: {bits: [2]}\n"),
              testing::HasSubstr("expected this key once in sweep, got it twice"));
}

TEST(Experiment, RightKeyInWrongSectionAtEveryDepth) {
  EXPECT_THAT(fault_of("name: a\nmodel: {path: /m, bits: 3}\nmethod: {name: gptq}\n"),
              HasSubstr("[e.yaml:2:19 model.bits]"));
  EXPECT_THAT(fault_of("name: a\nmodel: {path: /m, bits: 3}\nmethod: {name: gptq}\n"),
              HasSubstr("Did you mean 'quant.bits'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "group_size: 32\n"),
              HasSubstr("Did you mean 'quant.group_size'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "model2: {}\n"), HasSubstr("Did you mean 'model'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "sweep: {quant.bit: [3]}\n"),
              HasSubstr("[e.yaml:4:9 quant.bit] expected one of bits, group_size"));
  EXPECT_THAT(fault_of(std::string(kGood) + "cells: [{method.act_ordr: true}]\n"),
              HasSubstr("Did you mean 'method.act_order'?"));
  EXPECT_THAT(
      fault_of(std::string(kGood) + "evaluate: [{perplexity: {datasets: [c4], seqlenn: 8}}]\n"),
      HasSubstr("Did you mean 'evaluate.perplexity.seqlen'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "evaluate: [{perplexty: {datasets: [c4]}}]\n"),
              HasSubstr("Did you mean 'evaluate.perplexity'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "expect: [{metrics: x}]\n"),
              HasSubstr("Did you mean 'metric'?"));
  EXPECT_THAT(
      fault_of(std::string(kGood) + "expect: [{metric: x, where: {quant.bit: 3}, at_most: 1}]\n"),
      HasSubstr("Did you mean 'quant.bits'?"));
  EXPECT_THAT(
      fault_of(std::string(kGood) + "expect: [{metric: x, value: 1, tolerance: {relativ: 1}}]\n"),
      HasSubstr("Did you mean 'relative'?"));
}

TEST(Experiment, AllFaultsOfAFileAreReportedTogether) {
  const std::string text = fault_of(
      "name: A b\nmodel: {path: /m}\nmethod: {name: gptq, act_order: yes}\nquant: {bits: 5, bits: "
      "4}\nnope: 1\n");
  EXPECT_THAT(text, HasSubstr("[e.yaml] 5 faults:"));
  EXPECT_THAT(
      text,
      HasSubstr("[e.yaml:1:7 name] expected lower-case letters, digits, '_' and '-', got 'A b'"));
  EXPECT_THAT(text, HasSubstr("[e.yaml:3:33 method.act_order] expected true or false, got 'yes'"));
  EXPECT_THAT(text,
              HasSubstr("[e.yaml:4:15 quant.bits] expected one of 2, 3, 4, 8, ternary; got '5'"));
  EXPECT_THAT(text, HasSubstr("[e.yaml:4:18 bits] expected each key once"));
  EXPECT_THAT(text, HasSubstr("[e.yaml:5:1 nope] expected one of name, tier, model"));
}

TEST(Experiment, ErrorListKeepsTheErrorsApart) {
  try {
    parse("name: a\nmodel: {path: /m}\nmethod: {name: gptq}\nquant: {bits: 5, group_size: 0}\n");
    FAIL();
  } catch (const ErrorList& list) {
    ASSERT_EQ(list.errors().size(), 2u);
    EXPECT_EQ(list.errors()[1].where(), "e.yaml:4:30 quant.group_size");
  }
}

TEST(Experiment, WrongShapeIsNamed) {
  EXPECT_EQ(fault_of(std::string(kGood) + "quant: 4\n"),
            "[e.yaml:4:8 quant] expected a map of keys of 'quant', got '4'");
  EXPECT_EQ(fault_of("- 1\n"), "[e.yaml:1:1] expected a map of keys, got a list");
  EXPECT_EQ(fault_of(std::string(kGood) + "evaluate: perplexity\n"),
            "[e.yaml:4:11 evaluate] expected a list, got 'perplexity'");
  EXPECT_THAT(fault_of(std::string(kGood) + "evaluate: [perplexity]\n"),
              HasSubstr("expected an evaluator with its options"));
  EXPECT_THAT(fault_of(std::string(kGood) + "sweep: {quant.bits: 3}\n"),
              HasSubstr("expected a list of values to sweep, got '3'"));
  EXPECT_THAT(fault_of(std::string(kGood) + "sweep: {quant.bits: []}\n"),
              HasSubstr("got an empty one"));
  EXPECT_THAT(fault_of(std::string(kGood) + "sweep: {name: [a]}\n"),
              HasSubstr("It cannot be swept"));
  EXPECT_THAT(fault_of(std::string(kGood) + "cells: [{resume: true}]\n"),
              HasSubstr("It is the same for all cells of a file"));
  EXPECT_THAT(fault_of(std::string(kGood) + "cells: [{sweep: {}}]\n"),
              HasSubstr("It belongs at the top of the file"));
}

TEST(Experiment, EmptyAndMissing) {
  EXPECT_EQ(
      fault_of("# nothing\n"),
      "[e.yaml] expected an experiment, got an empty file. `gptq-bench schema` lists the keys");
  const std::string text = fault_of("quant: {bits: 3}\n");
  EXPECT_THAT(text, HasSubstr("[e.yaml:1:1 name] expected a `name`, got none"));
  EXPECT_THAT(text, HasSubstr("expected a `method.name` for every cell, got none"));
  EXPECT_THAT(text, HasSubstr("expected a `model.path` for every cell, got none"));
  EXPECT_THAT(message_of([] { load_experiments("/nonexistent/e.yaml"); }),
              HasSubstr("/nonexistent/e.yaml"));
}

TEST(Experiment, MisspelledRequiredKeyIsOneFault) {
  EXPECT_THAT(fault_of("name: a\nmodel: {pth: /m}\nmethod: {name: gptq}\n"),
              Not(HasSubstr("faults")));
}

TEST(Experiment, RequiredKeysMayComeFromSweepOrCells) {
  parse("name: a\nsweep: {method.name: [none], model.path: [/m]}\n");
  parse("name: a\nmodel: {path: /m}\ncells: [{method.name: rtn}]\n");
  EXPECT_THAT(
      fault_of("name: a\nmodel: {path: /m}\ncells: [{method.name: rtn}, {quant.bits: 3}]\n"),
      HasSubstr("expected a `method.name` for every cell"));
}

TEST(Experiment, KeyTwiceAcrossSpellings) {
  EXPECT_EQ(fault_of(std::string(kGood) + "quant: {bits: 3}\nquant.bits: 4\n"),
            "[e.yaml:5:1 quant.bits] expected each key once, got 'quant.bits' again: it is already "
            "set at e.yaml:4:15");
  EXPECT_THAT(fault_of(std::string(kGood) + "cells: [{quant.bits: 3}]\nsweep: {quant.bits: [4]}\n"),
              HasSubstr("expected a key in `sweep` or in `cells`, got 'quant.bits' in both"));
  EXPECT_THAT(fault_of(std::string(kGood) + "seeds: [0]\nsweep: {calibration.seed: [1]}\n"),
              HasSubstr("got `seeds` beside a sweep of calibration.seed"));
  EXPECT_THAT(fault_of("name: a\nmodel: {path: /m, synthetic: {like: x}}\nmethod: {name: rtn}\n"),
              HasSubstr("expected one of model.path and model.synthetic, got both"));
}

TEST(Experiment, UnsetVariableNamesFileLineAndKey) {
  unsetenv("GPTQB_TEST_UNSET");
  EXPECT_EQ(fault_of("name: a\nmodel: {path: \"${GPTQB_TEST_UNSET}/m\"}\nmethod: {name: rtn}\n"),
            "[e.yaml:2:15 model.path] expected the environment variable GPTQB_TEST_UNSET to be "
            "set, got none. Set it "
            "(export GPTQB_TEST_UNSET=...), or write ${GPTQB_TEST_UNSET:-default}");
}

TEST(Experiment, DocumentsAndTiers) {
  const std::string text =
      "name: a\ntier: smoke\nmodel: {path: /m}\nmethod: {name: rtn}\n---\nname: a\nmodel: {path: "
      "/m}\nmethod: {name: gptq}\n";
  EXPECT_EQ(parse_experiments(text, "e").size(), 2u);
  const auto smoke = parse_experiments(text, "e", {.set = {}, .tier = "smoke"});
  ASSERT_EQ(smoke.size(), 1u);
  EXPECT_EQ(smoke[0].base.at("method.name").value, "rtn");
  EXPECT_TRUE(parse_experiments(text, "e", {.set = {}, .tier = "base"}).empty());
  // A fault in a document of another tier is told all the same.
  EXPECT_THAT(message_of([&] {
                parse_experiments(text + "quants: 1\n", "e", {.set = {}, .tier = "smoke"});
              }),
              HasSubstr("[e:9:1 quants]"));
}

TEST(Experiment, SetOnTheCommandLine) {
  const Experiment read =
      parse(kGood, {.set = {"quant.bits=3", "evaluate.perplexity.datasets=[c4]", "name=other",
                            "compat=reference", "method.damping=1e-3"},
                    .tier = ""});
  EXPECT_EQ(read.name, "other");
  EXPECT_EQ(read.forced.at("quant.bits").value, 3);
  EXPECT_EQ(read.forced.at("evaluate.perplexity.datasets").value[0], "c4");
  EXPECT_EQ(read.forced.at("compat.base").value, "reference");
  EXPECT_EQ(read.forced.at("method.damping").value, 0.001);
}

TEST(Experiment, SetFaultsNameTheOption) {
  const auto fault = [](const std::string& option) {
    return fault_of(kGood, {.set = {option}, .tier = ""});
  };
  EXPECT_EQ(fault("quant.bits=5"),
            "[--set quant.bits=5] expected one of 2, 3, 4, 8, ternary; got '5'");
  EXPECT_EQ(fault("quant.bits"), "[--set quant.bits] expected KEY=VALUE, got 'quant.bits'");
  EXPECT_THAT(fault("quant.bit=3"),
              HasSubstr("[--set quant.bit=3] expected one of bits, group_size"));
  EXPECT_THAT(fault("quant.bit=3"), HasSubstr("Did you mean 'quant.bits'?"));
  EXPECT_EQ(fault("quant=3"),
            "[--set quant=3] expected a key, got the section 'quant'. Set its keys one by one");
  EXPECT_THAT(fault("method.act_order=yes"), HasSubstr("expected true or false, got 'yes'"));
  EXPECT_THAT(fault("quant.bits=[3"), HasSubstr("expected a value in YAML syntax, got '[3'"));
  EXPECT_THAT(fault("seeds=[1]"),
              HasSubstr("[--set seeds=[1]] expected a key of a cell, got 'seeds'"));
}

TEST(Experiment, ExpectEntries) {
  const Experiment read =
      parse(std::string(kGood) +
            "expect:\n  - {where: {quant.bits: 4}, metric: perplexity.c4, value: 5.85, tolerance: "
            "{absolute: 0.05}, source: \"README\", confidence: high}\n"
            "  - {metric: seconds.quantize, at_most: 15}\n"
            "  - {metric: seconds.quantize, value: 20}\n");
  ASSERT_EQ(read.expect.size(), 3u);
  EXPECT_EQ(read.expect[2].second.value, 20.0) << "a time needs no tolerance: it gets a ratio";
  const Expectation& first = read.expect[0].second;
  EXPECT_EQ(first.value, 5.85);
  EXPECT_EQ(first.tolerance_absolute, 0.05);
  EXPECT_FALSE(first.tolerance_relative);
  EXPECT_EQ(first.source, "README");
  EXPECT_EQ(first.confidence, "high");
  EXPECT_EQ(first.where, "quant.bits: 4");
  EXPECT_EQ(first.position.text(), "e.yaml:5:5");
  EXPECT_EQ(read.expect[1].second.at_most, 15.0);
}

// A line of a published table is one entry; the sweep says what its columns are.
TEST(Experiment, ARowOfValuesStandsAlongASweptKey) {
  const Experiment read = parse(
      "name: k\nmethod: {name: gptq}\n"
      "sweep: {model.path: [/a, /b, /c], quant.bits: [4, 3]}\n"
      "expect:\n"
      "  - {where: {quant.bits: 3}, along: model.path, metric: perplexity.c4, values: [5.5, null, "
      "1.3e+3], tolerance: {relative: [0.01, 0.01, 0.05]}, source: T3, note: as printed}\n"
      "  - {along: quant.bits, metric: perplexity.c4, values: [1, 2], tolerance: {absolute: "
      "0.1}}\n");
  ASSERT_EQ(read.expect.size(), 4u) << "null is no value";
  EXPECT_EQ(read.expect[0].second.value, 5.5);
  EXPECT_EQ(read.expect[0].second.tolerance_relative, 0.01);
  EXPECT_EQ(read.expect[0].second.where, "model.path: /a, quant.bits: 3");
  EXPECT_EQ(read.expect[0].second.note, "as printed");
  EXPECT_EQ(read.expect[1].second.value, 1300.0);
  EXPECT_EQ(read.expect[1].second.tolerance_relative, 0.05);
  EXPECT_EQ(read.expect[1].first.at("model.path").value, "/c");
  EXPECT_EQ(read.expect[3].second.tolerance_absolute, 0.1);
  EXPECT_EQ(read.expect[3].second.where, "quant.bits: 3");
}

TEST(Experiment, ARowThatDoesNotFitItsColumnsIsAnError) {
  const auto fault = [](const std::string& entry) {
    return fault_of(
        "name: k\nmodel: {path: /m}\nmethod: {name: gptq}\nsweep: {quant.bits: [4, "
        "3]}\nexpect: [{metric: a, " +
        entry + "}]\n");
  };
  EXPECT_THAT(fault("along: quant.bits, values: [1], tolerance: {absolute: 1}"),
              HasSubstr("for each of the 2 values of quant.bits, got 1"));
  EXPECT_THAT(fault("along: quant.group_size, values: [1, 2], tolerance: {absolute: 1}"),
              HasSubstr("expected a key of `sweep` along which the values stand, got "
                        "'quant.group_size'"));
  EXPECT_THAT(fault("values: [1, 2], tolerance: {absolute: 1}"), HasSubstr("stand, got none"));
  EXPECT_THAT(fault("along: quant.bits, values: [1, 2], tolerance: {absolute: [1, 2, 3]}"),
              HasSubstr("one for each of the 2 values, got 3"));
  EXPECT_THAT(fault("along: quant.bits, value: 1, tolerance: {absolute: 1}"),
              HasSubstr("expected `along` only beside `values`"));
  EXPECT_THAT(fault("along: quant.bits, values: 1, tolerance: {absolute: 1}"),
              HasSubstr("expected a list of numbers, got '1'"));
}

TEST(Experiment, ExpectEntriesThatCannotBeJudged) {
  const auto fault = [](const std::string& entry) {
    return fault_of(std::string(kGood) + "expect: [" + entry + "]\n");
  };
  EXPECT_THAT(fault("{value: 1, tolerance: {absolute: 1}}"),
              HasSubstr("expected a `metric`, got none"));
  EXPECT_THAT(fault("{metric: a}"),
              HasSubstr("expected one of value, values, at_most and at_least; got 0 of them"));
  EXPECT_THAT(fault("{metric: a, value: 1, at_most: 2}"), HasSubstr("got 2 of them"));
  EXPECT_THAT(fault("{metric: a, value: 1}"),
              HasSubstr("expected a `tolerance` beside `value`, got none"));
  EXPECT_THAT(fault("{metric: a, at_most: 1, tolerance: {absolute: 1}}"),
              HasSubstr("got one beside a bound"));
  EXPECT_THAT(fault("{metric: a, value: 1, tolerance: 0.1}"),
              HasSubstr("expected {absolute: X} or {relative: X}, got '0.1'"));
  EXPECT_THAT(fault("{metric: a, value: 1, tolerance: {absolute: 1, relative: 1}}"),
              HasSubstr("got 2 keys"));
  EXPECT_THAT(fault("{metric: a, value: 1, tolerance: {absolute: -1}}"),
              HasSubstr("expected a number >= 0, got '-1'"));
}

TEST(Experiment, SectionsOfLaterWorkAreCheckedToo) {
  const Experiment read =
      parse("name: k\nkernels: {like: llama-7b, m: [1, 16], bits: [4], group_size: 128}\n");
  EXPECT_EQ(read.base.at("kernels.m").value.size(), 2u);
  EXPECT_THAT(fault_of("name: k\nkernels: {like: llama-7b, m: [0]}\n"),
              HasSubstr("kernels.m] expected an integer >= 1, got '0'"));
  EXPECT_THAT(fault_of(std::string(kGood) + "save: {pth: /x}\n"),
              HasSubstr("Did you mean 'save.path'?"));
  EXPECT_THAT(fault_of(std::string(kGood) + "executor: {name: slrm}\n"),
              HasSubstr("Did you mean 'slurm'?"));
}

}  // namespace
}  // namespace gptqb
