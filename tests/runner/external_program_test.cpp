#include "runner/external_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "common/atomic_file.h"
#include "common/progress.h"
#include "methods/grid.h"
#include "models/safetensors.h"
#include "runner/child_process.h"
#include "runner/cli.h"
#include "runner/hessian_dump.h"
#include "runner/record.h"
#include "tests/runner/record_samples.h"
#include "tests/runner/run_program.h"
#include "tests/support/code_block.h"
#include "tests/support/layers.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kRows = 3;
constexpr int64_t kColumns = 10;

class External : public testing::Test {
 protected:
  External() : stats_(test::stats_of(inputs())) {
    at::manual_seed(2);
    problem_ = test::layer_problem(at::randn({kRows, kColumns}), &stats_);
    problem_.quant = {.bits = 3, .group_size = 4};
    problem_.method.damping = 0.0125;
    answer_ = round_to_nearest(problem_.weight, {.quant = problem_.quant}, "layer");
  }

  static at::Tensor inputs() {
    at::manual_seed(1);
    return at::randn({2, 7, kColumns});
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  fs::path work() const { return folder_.path() / "work"; }

  std::map<std::string, at::Tensor> answer_tensors() const {
    return {{"codes", answer_.codes}, {"scales", answer_.scales}, {"zeros", answer_.zeros}};
  }
  // What comes of a program that answers with `tensors`.
  LinearReplacement solve_with(const std::map<std::string, at::Tensor>& tensors) {
    write_safetensors(path("answer.safetensors"), tensors);
    return ExternalProgram("cp " + path("answer.safetensors") + " {output}", work())
        .solve(problem_);
  }
  std::string refusal(const std::string& name, const at::Tensor& tensor) {
    auto tensors = answer_tensors();
    if (tensor.defined())
      tensors[name] = tensor;
    else
      tensors.erase(name);
    return message_of([&] { solve_with(tensors); });
  }
  std::string refusal_of_command(const std::string& command) {
    return message_of([&] { ExternalProgram(command, work()).solve(problem_); });
  }
  std::string script(const std::string& text) {
    write_file_atomically(path("script.sh"), text);
    return "sh " + path("script.sh");
  }

  test::TemporaryFolder folder_;
  CalibrationStats stats_;
  LinearProblem problem_;
  QuantizedLinear answer_;
};

TEST_F(External, IsGivenWeightHessianAndSettings) {
  const std::string message = refusal_of_command("cp {input} '" + path("seen file") + "'");
  EXPECT_THAT(message, HasSubstr("output.safetensors, got no file"));
  const SafetensorsFile seen(path("seen file"));
  EXPECT_TRUE(at::equal(seen.view("weight"), problem_.weight));
  const at::Tensor x = inputs().reshape({-1, kColumns}).to(at::kDouble);
  EXPECT_TRUE(at::allclose(seen.view("hessian").to(at::kDouble), at::mm(x.t(), x), 1e-5, 1e-5))
      << "2 / sequences = 1 for two sequences";
  const auto& settings = seen.metadata();
  EXPECT_EQ(settings.at("layer"), problem_.layer);
  EXPECT_EQ(settings.at("bits"), "3");
  EXPECT_EQ(settings.at("group_size"), "4");
  EXPECT_EQ(settings.at("symmetric"), "false");
  EXPECT_EQ(settings.at("scale_dtype"), "float16");
  EXPECT_EQ(settings.at("damping"), "0.0125");
  EXPECT_EQ(settings.at("tokens"), "14");
  EXPECT_EQ(settings.at("sequences"), "2");
  EXPECT_EQ(settings.at("model_dtype"), "F32");
  EXPECT_EQ(settings.at("order"), "natural");
}

TEST_F(External, IsToldTheOrderOfColumns) {
  const auto told = [&] {
    refusal_of_command("cp {input} " + path("seen"));
    return SafetensorsFile(path("seen")).metadata().at("order");
  };
  problem_.method.order = ColumnOrder::kReverse;
  EXPECT_EQ(told(), "reverse");
  problem_.method.order = ColumnOrder::kRandom;
  problem_.method.order_seed = 17;
  EXPECT_EQ(told(), "random:17");
  problem_.method.order.reset();
  problem_.method.act_order = true;
  EXPECT_EQ(told(), "act");
}

TEST_F(External, CodesComeBackInAnyIntegerDtypeAndLeaveNoFiles) {
  auto tensors = answer_tensors();
  for (const at::ScalarType dtype : {at::kByte, at::kInt, at::kLong}) {
    tensors["codes"] = answer_.codes.to(dtype);
    tensors["zeros"] = answer_.zeros.to(dtype);
    tensors["scales"] = answer_.scales.to(dtype == at::kByte ? at::kHalf : at::kDouble);
    const LinearReplacement replacement = solve_with(tensors);
    const auto& codes = std::get<QuantizedLinear>(replacement.form);
    codes.validate("answer");
    EXPECT_TRUE(at::equal(codes.codes, answer_.codes));
    EXPECT_TRUE(at::equal(codes.scales, answer_.scales));
    EXPECT_TRUE(at::equal(codes.zeros, answer_.zeros));
    EXPECT_TRUE(fs::is_empty(work()));
  }
}

TEST_F(External, GroupsCanBeAnyColumns) {
  auto tensors = answer_tensors();
  const at::Tensor groups = at::remainder(at::arange(kColumns, at::kLong), 3);
  tensors["g_idx"] = groups;
  const LinearReplacement replacement = solve_with(tensors);
  const at::Tensor weights = replacement.effective_weights(at::kFloat);
  for (int64_t i = 0; i < kColumns; ++i)
    EXPECT_TRUE(at::allclose(
        weights.select(1, i),
        answer_.scales.select(1, i % 3) * (answer_.codes.select(1, i).to(at::kFloat) -
                                           answer_.zeros.select(1, i % 3).to(at::kFloat))));
}

TEST_F(External, TransformsAndDenseWeightsAreTaken) {
  const at::Tensor dense = at::randn({kRows, kColumns}, at::kDouble);
  EXPECT_TRUE(at::equal(solve_with({{"weight", dense}}).effective_weights(at::kDouble), dense));
  auto tensors = answer_tensors();
  const at::Tensor diagonal = at::rand({kColumns}) + 0.5;
  const at::Tensor codes = answer_.dequantize(at::kFloat);
  tensors["input_transform"] = diagonal;
  EXPECT_TRUE(at::allclose(solve_with(tensors).effective_weights(at::kFloat), codes * diagonal));
  const at::Tensor whole = at::randn({kColumns, kColumns});
  tensors["input_transform"] = whole;
  EXPECT_TRUE(at::allclose(solve_with(tensors).effective_weights(at::kFloat), at::mm(codes, whole),
                           1e-5, 1e-5));
}

// The method around it: errors as for any other, by the definition tr(E H E^T) / tr(W H W^T).
TEST_F(External, IsScoredLikeAnyOtherMethod) {
  write_safetensors(path("answer.safetensors"), answer_tensors());
  ExternalProgram program("cp " + path("answer.safetensors") + " {output}", work());
  problem_.external = &program;
  const LayerResult own = test::quantize_with("external", problem_);
  const LayerResult rtn = test::quantize_with("rtn", problem_);
  EXPECT_EQ(own.health.method, "external");
  EXPECT_EQ(own.health.relative_error, rtn.health.relative_error);
  EXPECT_EQ(own.health.relative_error_rtn, rtn.health.relative_error);
  EXPECT_EQ(own.health.loss, rtn.health.loss);
  EXPECT_EQ(own.health.damping, 0.0125);
  EXPECT_EQ(own.health.tokens, 14);

  write_safetensors(path("answer.safetensors"), {{"weight", problem_.weight * 0.5}});
  const LayerResult half = test::quantize_with("external", problem_);
  EXPECT_NEAR(*half.health.relative_error, 0.25, 1e-6);
  EXPECT_EQ(half.health.bits, 0) << "dense weights have no codes";

  problem_.external = nullptr;
  EXPECT_THAT(message_of([&] { test::quantize_with("external", problem_); }),
              HasSubstr("expected a program for method external, got none"));
}

// Finite where the program computed them, infinite where the model does.
TEST_F(External, WeightsBeyondTheModelsDtypeAreNamed) {
  problem_.weight = problem_.weight.to(at::kHalf);
  ExternalProgram program("cp " + path("answer.safetensors") + " {output}", work());
  problem_.external = &program;
  const auto refusal_of = [&](const std::map<std::string, at::Tensor>& tensors) {
    write_safetensors(path("answer.safetensors"), tensors);
    return message_of([&] { test::quantize_with("external", problem_); });
  };
  at::Tensor weight = problem_.weight.to(at::kFloat);
  weight[2][7] = -70000;
  EXPECT_THAT(refusal_of({{"weight", weight}}),
              HasSubstr("[model.layers.3.mlp.down_proj] expected weights of at most 65504, the "
                        "largest number of the model's dtype, got -70000 in row 2, column 7"));
  auto tensors = answer_tensors();
  tensors["scales"] = at::full({kRows, 3}, 32768.0f);
  tensors["codes"] = at::zeros({kRows, kColumns}, at::kByte);
  tensors["zeros"] = at::zeros({kRows, 3}, at::kByte);
  tensors["codes"][1][4] = 2;
  EXPECT_THAT(refusal_of(tensors), HasSubstr("got 65536 in row 1, column 4"));
  weight[2][7] = -65504;
  EXPECT_EQ(refusal_of({{"weight", weight}}), "nothing was thrown");
}

TEST_F(External, AFailingProgramIsNamedWithWhatItPrinted) {
  EXPECT_THAT(refusal_of_command(script("echo loading; echo 'it broke' >&2; exit 3\n")),
              AllOf(HasSubstr("[model.layers.3.mlp.down_proj] expected the external program to end "
                              "with status 0, got exit status 3. Command: sh "),
                    HasSubstr("It printed: loading | it broke."), HasSubstr("Its files are in ")));
  EXPECT_TRUE(fs::exists(work() / problem_.layer / "input.safetensors"));
  EXPECT_THAT(refusal_of_command(script("kill -9 $$\n")), HasSubstr("got signal 9 (Killed)"));
  EXPECT_THAT(refusal_of_command("no-such-program-here --fast"),
              AllOf(HasSubstr("[model.layers.3.mlp.down_proj] [no-such-program-here] expected a "
                              "program that can be started, got 'No such file or directory'"),
                    HasSubstr("Command: no-such-program-here --fast. It printed nothing")));
  EXPECT_THAT(refusal_of_command(script("head -c 100 \"$1\" > \"$2\"\n")),
              AllOf(HasSubstr("[model.layers.3.mlp.down_proj]"), HasSubstr("truncated")));
}

TEST_F(External, EachFaultOfAnAnswerIsNamed) {
  EXPECT_THAT(refusal("zeros", {}),
              HasSubstr("[answer] expected codes, scales and zeros, or weight, got codes, scales"));
  EXPECT_THAT(refusal("weight", at::ones({kRows, kColumns})),
              HasSubstr("expected `weight` alone or codes, not both"));
  EXPECT_THAT(refusal("zero_points", at::ones({kRows})),
              HasSubstr("expected codes, scales, zeros, g_idx, input_transform or weight, got "
                        "codes, scales, zero_points, zeros"));
  EXPECT_THAT(refusal("codes", answer_.codes.t().contiguous()),
              HasSubstr("[codes] expected shape [3, 10], got [10, 3]"));
  EXPECT_THAT(refusal("codes", answer_.codes.to(at::kFloat)),
              HasSubstr("[codes] expected an integer dtype, got F32"));
  EXPECT_THAT(refusal("codes", at::full({kRows, kColumns}, 8, at::kByte)),
              HasSubstr("[codes] expected whole numbers from 0 to 7, got 8"));
  EXPECT_THAT(refusal("zeros", at::full({kRows, 3}, -1, at::kInt)),
              HasSubstr("[zeros] expected whole numbers from 0 to 7, got -1"));
  EXPECT_THAT(refusal("scales", at::full({kRows, 3}, std::nanf(""))),
              HasSubstr("[scales] expected finite numbers, got 9 that are NaN or infinite"));
  EXPECT_THAT(refusal("scales", at::zeros({kRows, 3})),
              HasSubstr("[scales] expected numbers above 0, got 0"));
  EXPECT_THAT(refusal("scales", at::full({kRows, 3}, 0.1f)),
              HasSubstr("[scales] expected numbers that float16 holds, as quant.scale_dtype says, "
                        "got 9 that it does not"));
  EXPECT_THAT(refusal("g_idx", at::full({kColumns}, 3, at::kInt)),
              HasSubstr("[g_idx] expected whole numbers from 0 to 2, got 3"));
  EXPECT_THAT(refusal("input_transform", at::ones({kColumns - 1})),
              HasSubstr("[input_transform] expected shape [10], got [9]"));
}

TEST_F(External, CommandsHaveWordsAndNoShell) {
  EXPECT_THAT(split_command("  a 'b c'\t\"d $HOME\"e ''  *;|"),
              ElementsAre("a", "b c", "d $HOMEe", "", "*;|"));
  EXPECT_THAT(message_of([] { split_command("a 'b"); }),
              HasSubstr("expected a closing ', got none"));
  EXPECT_THAT(message_of([] { split_command("  "); }), HasSubstr("got an empty command"));
  // Without placeholders the two paths come last.
  const std::string log = path("log");
  refusal_of_command("sh -c 'echo \"$0|$1|$2\" > " + log + "' *");
  EXPECT_THAT(read_file(log), AllOf(HasSubstr("*|/"), HasSubstr("/input.safetensors|/"),
                                    HasSubstr("/output.safetensors\n")));
}

TEST_F(External, CtrlCStopsTheProgram) {
  interrupt_requested() = true;
  EXPECT_THROW(run_child({"sleep", "60"}, path("log")), Interrupted);
  interrupt_requested() = false;
}

// Slurm at a time limit, and `kill` of a process group, send SIGTERM to the program and to this
// process: the program's end may be seen first, and is no fault of its own.
TEST_F(External, AProgramThatIsStoppedTogetherWithThisProcessIsInterrupted) {
  const auto before = std::signal(SIGTERM, [](int) { interrupt_requested() = true; });
  EXPECT_THROW(
      run_child({"sh", "-c", "(sleep 0.1; kill -TERM $PPID) & kill -TERM $$"}, path("log")),
      Interrupted);
  std::signal(SIGTERM, before);
  interrupt_requested() = false;
  // One that only the program got is its fault.
  EXPECT_EQ(run_child({"sh", "-c", "kill -TERM $$"}, path("log")), "signal 15 (Terminated)");
}

// Until it holds, at most some seconds.
template <class Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    ::usleep(10000);
  }
  return false;
}

// A scheduler that kills this program must not leave its child computing.
TEST_F(External, TheProgramEndsWithAHarnessThatIsKilled) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the orphan's end is told to this process
  const pid_t harness = ::fork();
  if (harness == 0) {
    try {
      run_child({"sh", "-c", "echo $$ > " + path("pid") + "; exec sleep 60"}, path("log"));
    } catch (...) {
    }
    ::_exit(0);
  }
  pid_t program = 0;
  ASSERT_TRUE(eventually([&] { return bool(std::ifstream(path("pid")) >> program); }));
  ::kill(harness, SIGKILL);
  ::waitpid(harness, nullptr, 0);
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(program, &status, WNOHANG) == program; });
  EXPECT_TRUE(ended && WIFSIGNALED(status));
  if (!ended) {
    ::kill(program, SIGKILL);
    ::waitpid(program, &status, 0);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(External, AnotherVersionOfAScriptIsAnotherProgram) {
  const std::string command = script("exit 0\n") + " {input} {output}";
  const std::string before = command_fingerprint(command);
  EXPECT_EQ(command_fingerprint(command), before);
  script("exit 1\n");
  EXPECT_NE(command_fingerprint(command), before);
  EXPECT_EQ(command_fingerprint(""), "");
}

// --- on the embedded model ---

// Attention of the first block is quantized, everything else stays dense.
std::string experiment(const std::string& method, const std::string& more = "") {
  return "name: tiny\n"
         "model: {path: \"" GPTQB_SOURCE_DIR
         "/assets/quickstart-model\", dtype: float32}\n"
         "calibration: {dataset: builtin, samples: 8, seqlen: 64, heldout: 2}\n"
         "quant: {bits: 3, group_size: 64}\n"
         "method: " +
         method +
         "\n"
         "overrides: [{match: \"model.layers.0.self_attn.*\", quant.bits: 3}, {match: \"*\", skip: "
         "true}]\n"
         "evaluate:\n"
         "  - perplexity: {datasets: [builtin], seqlen: 64, max_windows: 4}\n" +
         more;
}

Record only_record(const fs::path& output) {
  const auto loaded = load_records(output).records;
  EXPECT_EQ(loaded.size(), 1u);
  return loaded.at(0);
}

bool has_numpy() { return std::system("python3 -c 'import numpy' > /dev/null 2>&1") == 0; }

std::string shortcut(const std::string& name) {
  return "python3 " GPTQB_SOURCE_DIR "/scripts/gptq_shortcuts.py " + name + " {input} {output}";
}

// experiments/claims/diagonal_hessian.yaml: no error moves, and codes are those of RTN.
TEST_F(External, ADiagonalHessianRoundsToTheNearest) {
  if (!has_numpy()) GTEST_SKIP() << "python3 with numpy is not there (scripts/setup installs both)";
  const LinearReplacement made = ExternalProgram(shortcut("diagonal"), work()).solve(problem_);
  EXPECT_TRUE(at::equal(made.codes()->codes, answer_.codes));
  EXPECT_TRUE(at::equal(made.codes()->scales, answer_.scales));
}

// experiments/claims/copied_update.yaml, column by column.
TEST_F(External, TheCopiedUpdateTakesEntriesOfHItself) {
  if (!has_numpy()) GTEST_SKIP() << "python3 with numpy is not there (scripts/setup installs both)";
  const LinearReplacement made = ExternalProgram(shortcut("copied"), work()).solve(problem_);
  const at::Tensor h = stats_.hessian().to(at::kDouble) + 0.0125 * at::eye(kColumns, at::kDouble);
  at::Tensor w = problem_.weight.to(at::kDouble).clone();
  at::Tensor scale, zero;
  for (int64_t i = 0; i < kColumns; ++i) {
    if (i % 4 == 0) {
      const at::Tensor group = w.slice(1, i, std::min(i + 4, kColumns));
      const at::Tensor low = std::get<0>(group.min(1)).clamp_max(0);
      const at::Tensor high = std::get<0>(group.max(1)).clamp_min(0);
      scale = ((high - low) / 7).to(at::kFloat).to(at::kHalf).to(at::kDouble);
      zero = at::round(-low / scale).clamp(0, 7);
    }
    const at::Tensor code = (at::round(w.select(1, i) / scale) + zero).clamp(0, 7);
    EXPECT_TRUE(at::equal(made.codes()->codes.select(1, i).to(at::kDouble), code))
        << "column " << i;
    const at::Tensor error = w.select(1, i) - scale * (code - zero);
    for (int64_t j = i + 1; j < kColumns; ++j) w.select(1, j).sub_(error * (h[i][j] / h[i][i]));
  }
}

TEST_F(External, TheDocumentedExampleGivesGptqsNumbers) {
  if (std::system("python3 -c 'import numpy' > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3 with numpy is not there (scripts/setup installs both)";
  const std::string text = read_file(GPTQB_SOURCE_DIR "/docs/external.md");
  write_file_atomically(path("my_method.py"), test::code_block(text, "python"));
  write_file_atomically(path("own.yaml"),
                        experiment("{name: external, command: \"python3 " + path("my_method.py") +
                                   " {input} {output}\"}"));
  write_file_atomically(path("gptq.yaml"), experiment("{name: gptq, compute: float64}"));
  const Outcome own_run = run_program({"run", path("own.yaml"), "--output", path("own")});
  ASSERT_EQ(own_run.code, kExitOk) << own_run.out << own_run.err;
  ASSERT_EQ(run_program({"run", path("gptq.yaml"), "--output", path("gptq")}).code, kExitOk);
  const Record own = only_record(path("own"));
  const Record gptq = only_record(path("gptq"));
  ASSERT_EQ(own.layers.size(), gptq.layers.size());
  int scored = 0;
  for (size_t i = 0; i < own.layers.size(); ++i) {
    if (!own.layers[i].loss) continue;
    ++scored;
    EXPECT_EQ(own.layers[i].method, "external");
    EXPECT_EQ(own.layers[i].relative_error, gptq.layers[i].relative_error) << own.layers[i].layer;
    EXPECT_EQ(own.layers[i].relative_error_heldout, gptq.layers[i].relative_error_heldout);
    EXPECT_LT(*own.layers[i].relative_error, *own.layers[i].relative_error_rtn);
    EXPECT_EQ(own.layers[i].drift, gptq.layers[i].drift);
  }
  EXPECT_EQ(scored, 4);
  EXPECT_EQ(find_metric(own, "perplexity.builtin")->samples,
            find_metric(gptq, "perplexity.builtin")->samples);
  EXPECT_EQ(find_metric(own, "bits_per_weight.linear")->value,
            find_metric(gptq, "bits_per_weight.linear")->value);
  EXPECT_FALSE(fs::exists(fs::path(path("own")) / "work"));

  // A changed script is another method.
  write_file_atomically(path("my_method.py"), "raise SystemExit('not today')\n");
  const Outcome again = run_program({"run", path("own.yaml"), "--output", path("own")});
  EXPECT_EQ(again.code, kExitFailed);
  EXPECT_THAT(again.err, HasSubstr("the external program changed"));
  EXPECT_THAT(only_record(path("own")).reason,
              AllOf(HasSubstr("model.layers.0.self_attn.q_proj"), HasSubstr("exit status 1"),
                    HasSubstr("not today")));
}

TEST_F(External, AMissingCommandIsAnErrorBeforeAnyWork) {
  write_file_atomically(path("own.yaml"), experiment("{name: external}"));
  const Outcome outcome = run_program({"run", path("own.yaml"), "--output", path("own")});
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("method.command"), HasSubstr("docs/external.md")));
}

TEST_F(External, ADumpedHessianIsTheSumOfProducts) {
  FileHessianSink sink(folder_.path(), "cell", "inputs");
  EXPECT_FALSE(sink.has("a.b"));
  sink.save("a.b", stats_);
  EXPECT_TRUE(sink.has("a.b"));
  EXPECT_FALSE(FileHessianSink(folder_.path(), "cell", "other inputs").has("a.b"));
  const SafetensorsFile file(folder_.path() / "hessians" / "cell" / "a.b.safetensors");
  const at::Tensor x = inputs().reshape({-1, kColumns}).to(at::kDouble);
  EXPECT_TRUE(at::allclose(file.view("hessian").to(at::kDouble), at::mm(x.t(), x), 1e-5, 1e-5));
  write_file_atomically(sink.path("a.b"), "damaged");
  EXPECT_FALSE(sink.has("a.b"));
}

TEST_F(External, DumpedHessiansAreThoseOfTheLayers) {
  const auto run_with = [&](const std::string& more) {
    write_file_atomically(path("dump.yaml"), experiment("{name: gptq}", more));
    return run_program({"run", path("dump.yaml"), "--output", path("out")});
  };
  ASSERT_EQ(run_with("").code, kExitOk);
  const std::string id = only_record(path("out")).cell_id;
  const fs::path folder = fs::path(path("out")) / "hessians" / id;
  EXPECT_FALSE(fs::exists(folder));

  // The finished record has no Hessians to show, so the cell runs again; then it is kept.
  const Outcome outcome = run_with("dump: [hessians]\n");
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("its Hessians are not on disk"));
  EXPECT_EQ(only_record(path("out")).cell_id, id) << "dumping changes no number";
  EXPECT_THAT(only_record(path("out")).notes, testing::Contains(HasSubstr("hessians/" + id)));
  EXPECT_THAT(run_with("dump: [hessians]\n").err, HasSubstr("kept from an earlier run"));

  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("model.layers.0.self_attn.q_proj.safetensors",
                                                   "model.layers.0.self_attn.k_proj.safetensors",
                                                   "model.layers.0.self_attn.v_proj.safetensors",
                                                   "model.layers.0.self_attn.o_proj.safetensors"));
  const SafetensorsFile q(folder / "model.layers.0.self_attn.q_proj.safetensors");
  const SafetensorsFile k(folder / "model.layers.0.self_attn.k_proj.safetensors");
  const at::Tensor h = q.view("hessian");
  EXPECT_EQ(h.scalar_type(), at::kFloat);
  EXPECT_EQ(h.sizes(), (at::IntArrayRef{192, 192}));
  EXPECT_TRUE(at::equal(h, k.view("hessian")));
  EXPECT_TRUE(at::equal(h, h.t()));
  EXPECT_EQ(q.metadata().at("tokens"), "512");
  EXPECT_EQ(q.metadata().at("sequences"), "8");
  fs::remove(folder / "model.layers.0.self_attn.o_proj.safetensors");
  EXPECT_THAT(run_with("dump: [hessians]\n").err, HasSubstr("its Hessians are not on disk"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 4);
}

}  // namespace
}  // namespace gptqb
