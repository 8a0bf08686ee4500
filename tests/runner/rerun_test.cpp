// A record is enough to run its cell again, and two runs of one cell give the same numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/atomic_file.h"
#include "methods/quantizer.h"
#include "runner/cli.h"
#include "runner/input_cache.h"
#include "runner/plan.h"
#include "runner/record.h"
#include "runner/run.h"
#include "tests/runner/run_program.h"
#include "tests/support/code_block.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Rerun : public testing::Test {
 protected:
  std::string experiment(const std::string& method, const std::string& model) const {
    const bool has_grid = method != "llm_int8" && method != "none";
    const std::string quant = has_grid ? "quant: {bits: 3, group_size: 64}\n" : "";
    std::string settings = "name: " + method;
    // Greedy elimination takes its time, as programs of their own do: a few layers say as much.
    if (method == "obq") settings += ", layers: \"model.layers.0.self_attn.*\"";
    if (method == "external")
      settings += ", layers: \"model.layers.0.self_attn.*\", command: \"python3 " +
                  (folder_ / "my_method.py").string() + " {input} {output}\"";
    return "name: again\n"
           "model: {path: \"" +
           model +
           "\", dtype: float32}\n"
           "calibration: {dataset: builtin, samples: 4, seqlen: 64, heldout: 2}\n" +
           quant + "method: {" + settings +
           "}\n"
           "evaluate:\n"
           "  - perplexity: {datasets: [builtin], seqlen: 64, max_windows: 4}\n"
           "  - divergence: {datasets: [builtin], seqlen: 64, max_windows: 4}\n";
  }
  static std::string model() { return GPTQB_SOURCE_DIR "/assets/quickstart-model"; }
  std::string run(const std::string& text, std::vector<std::string> more = {}) const {
    const std::string path = (folder_ / "experiment.yaml").string();
    write_file_atomically(path, text);
    std::vector<std::string> args = {"run", path, "--output", (folder_ / "first").string()};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run_program(args);
    EXPECT_EQ(outcome.code, kExitOk) << outcome.out << outcome.err;
    const std::vector<Record> records = load_records(folder_ / "first").records;
    EXPECT_EQ(records.size(), 1u);
    return record_path(folder_ / "first", records.at(0).cell_id).string();
  }
  Outcome rerun(const std::string& record, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"rerun", record, "--output", (folder_ / "second").string()};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

class RerunOfMethod : public Rerun, public testing::WithParamInterface<std::string> {};

// Faults EH-10, EH-19: metrics, their samples, codes and errors of each layer, to the bit.
TEST_P(RerunOfMethod, GivesTheSameNumbers) {
  if (GetParam() == "external") {
    if (std::system("python3 -c 'import numpy' > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "python3 with numpy is not there (scripts/setup installs both)";
    write_file_atomically(
        folder_ / "my_method.py",
        test::code_block(read_file(GPTQB_SOURCE_DIR "/docs/external.md"), "python"));
  }
  const std::string record = run(experiment(GetParam(), model()));
  const Outcome outcome = rerun(record);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("Same environment: "), HasSubstr("\nIdentical to ")));
}

INSTANTIATE_TEST_SUITE_P(Methods, RerunOfMethod, testing::ValuesIn(quantizers().names()),
                         [](const auto& tested) { return tested.param; });

TEST_F(Rerun, SaysWhichResultsDiffer) {
  const std::string path = run(experiment("rtn", model()));
  Record record = record_from_json(read_file(path), path);
  const auto perplexity =
      std::find_if(record.metrics.begin(), record.metrics.end(),
                   [](const Metric& metric) { return metric.name == "perplexity.builtin"; });
  ASSERT_NE(perplexity, record.metrics.end());
  perplexity->value *= 1.01;
  record.layers[3].codes = "other";
  record.environment.build.commit = "0123456789";
  write_file_atomically(path, to_json(record));
  const Outcome outcome = rerun(path);
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, AllOf(StartsWith("| environment"), HasSubstr("| 0123456789"),
                                 HasSubstr("Not what " + path), HasSubstr("| perplexity.builtin"),
                                 HasSubstr("codes of " + record.layers[3].layer)));
}

TEST_F(Rerun, RefusesOtherInputsBeforeAnyWork) {
  const fs::path copy = folder_ / "model";
  fs::copy(model(), copy);
  const std::string path = run(experiment("none", copy.string()), {"--verify"});
  const Record record = record_from_json(read_file(path), path);
  EXPECT_GE(record.inputs.files.size(), 3u);
  EXPECT_EQ(rerun(path, {"--verify"}).code, kExitOk);
  // One byte in the middle of the weights, which no sampled page need hold.
  const fs::path weights = copy / "model.safetensors";
  std::string bytes = read_file(weights);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(weights, bytes);
  fs::remove_all(folder_ / "second");
  const Outcome outcome = rerun(path, {"--verify"});
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("expected the inputs that the record was made from"),
                                 HasSubstr("file model.safetensors of the model was ")));
  EXPECT_FALSE(fs::exists(folder_ / "second"));
  fs::remove_all(copy);
  EXPECT_THAT(rerun(path).err, HasSubstr("got not all of them: model: expected"));
}

// Windows are drawn once for the check of inputs and the run: where the text has changed in
// between, the run still has what was checked.
TEST_F(Rerun, PreparesItsInputsOnce) {
  const std::string text = (folder_ / "text.txt").string();
  std::string words;
  for (int i = 0; i < 2000; ++i) words += "word " + std::to_string(i * i) + " ";
  write_file_atomically(text, words);
  const std::string yaml = "name: once\nmodel: {path: \"" + model() +
                           "\", dtype: float32}\nmethod: {name: none}\n"
                           "evaluate: [{perplexity: {datasets: [{name: own, source: \"text:" +
                           text + "\"}], seqlen: 64, max_windows: 2}}]\n";
  const Plan plan = make_plan(parse_experiments(yaml, "once.yaml").at(0),
                              {.methods = {"none"}, .evaluators = {"perplexity"}});
  InputCache inputs("", "");
  const Cell& cell = plan.cells.at(0).cell;
  const EvaluatorSpec& evaluator = cell.evaluators().at(0);
  const TokenWindows& windows = inputs.evaluation(cell, evaluator, evaluator.datasets.at(0));
  const std::string checked = describe_windows("evaluation", "own", windows).ids_sha256;
  write_file_atomically(text, words.substr(words.size() / 2));
  RunOptions options;
  options.output = folder_ / "once";
  options.inputs = &inputs;
  const RunOutcome outcome = run_plan(plan, options);
  ASSERT_EQ(outcome.ran, 1) << outcome.records.at(0).reason;
  EXPECT_EQ(outcome.records.at(0).inputs.windows.at(0).ids_sha256, checked);
}

TEST_F(Rerun, RefusesWhatItCannotDo) {
  const std::string path = run(experiment("none", model()));
  EXPECT_THAT(rerun(path, {"--verify"}).err, HasSubstr("They are recorded by run --verify"));
  EXPECT_THAT(run_program({"rerun", path, "--output", (folder_ / "first").string()}).err,
              HasSubstr("expected another folder than the record's own"));
  Record record = record_from_json(read_file(path), path);
  record.status = CellStatus::kSkipped;
  record.reason = "not run: data";
  write_file_atomically(path, to_json(record));
  EXPECT_THAT(rerun(path).err, HasSubstr("got a skipped one: not run: data"));
}

}  // namespace
}  // namespace gptqb
