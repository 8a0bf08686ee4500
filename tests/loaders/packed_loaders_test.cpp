// Packed checkpoints and the loaders that others wrote (docs/checkpoints.md): folders of ours are
// read by theirs, folders of theirs by ours. Needs ./scripts/setup --real-model --loaders and
// ../shared.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "common/atomic_file.h"
#include "datasets/tokenizer.h"
#include "eval/window_loss.h"
#include "models/checkpoint.h"
#include "models/packed_validate.h"
#include "runner/child_process.h"
#include "runner/cli.h"
#include "tests/models/model_folder.h"
#include "tests/runner/run_program.h"
#include "tests/support/shared.h"
#include "tests/support/stories260k.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWindows = 4;
constexpr int64_t kTokens = 128;

// The environment of ./scripts/setup --loaders; scripts/env.sh names it.
fs::path loaders_environment() {
  const char* folder = std::getenv("GPTQ_BENCH_LOADERS");
  return folder ? folder : "/nonexistent";
}

#define GPTQB_REQUIRE_LOADERS() GPTQB_REQUIRE_PATH(loaders_environment() / "complete")

// Runs tests/loaders/`script` there.
void run_python(const std::string& script, std::vector<std::string> args, const fs::path& log) {
  args.insert(args.begin(), {(loaders_environment() / "bin/python").string(),
                             GPTQB_SOURCE_DIR "/tests/loaders/" + script});
  const std::string ended = run_child(args, log);
  if (ended.empty()) return;
  const std::string text = read_file(log);
  FAIL() << script << ": " << ended << "\n"
         << text.substr(text.size() > 3000 ? text.size() - 3000 : 0);
}

// Largest over the positions (rows) of the distance over the length of `expected`.
double relative_distance(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor wanted = expected.to(at::kDouble);
  return ((actual.to(at::kDouble) - wanted).norm(2, 1) / wanted.norm(2, 1)).max().item<double>();
}

struct OurFolder {
  std::string name;
  std::vector<std::string> settings;  // of gptq-bench quantize
  std::vector<std::string> loaders;   // docs/checkpoints.md says why not all
};

std::ostream& operator<<(std::ostream& out, const OurFolder& folder) { return out << folder.name; }

class OurFolders : public testing::TestWithParam<OurFolder> {
 protected:
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// Each loader's logits and losses beside ours, all in float32, of ids by each side's own tokenizer
// from the folder. SmolLM2 has 576 columns, no multiple of 128.
TEST_P(OurFolders, AnswerAlikeInTheLoadersOfOthers) {
  GPTQB_REQUIRE_LOADERS();
  GPTQB_REQUIRE_PATH(smollm2_folder());
  GPTQB_REQUIRE_PATH(tinystories_sample());
  const fs::path packed = folder_ / "packed";
  std::vector<std::string> args = {"quantize",     smollm2_folder().string(),
                                   "--out",        packed.string(),
                                   "--output",     (folder_ / "records").string(),
                                   "--dataset",    "builtin",
                                   "--samples",    "2",
                                   "--seqlen",     "128",
                                   "--group-size", "64",
                                   "--set",        "calibration.heldout=0"};
  args.insert(args.end(), GetParam().settings.begin(), GetParam().settings.end());
  const Outcome made = run_program(args);
  ASSERT_EQ(made.code, kExitOk) << made.out << made.err;

  const fs::path text =
      temporary_.write("text.txt", read_file(tinystories_sample()).substr(0, 4000));
  std::vector<int32_t> ids = open_tokenizer(packed)->encode_with_special(read_file(text));
  ASSERT_GE(ids.size(), static_cast<size_t>(kWindows * kTokens));
  ids.resize(static_cast<size_t>(kWindows * kTokens));
  TokenWindows windows;
  windows.count = kWindows;
  windows.seqlen = kTokens;
  windows.ids = ids;
  std::vector<double> losses;
  at::Tensor logits;
  const at::Tensor rows =
      at::tensor(at::ArrayRef<int32_t>(ids), at::kLong).view({kWindows, kTokens});
  {
    const auto model = open_model(packed, {.dtype = "float32"});
    losses = window_losses(*model, windows, {});
    logits = run_model(*model, rows.narrow(0, 0, 1))[0];
  }

  const fs::path answers = folder_ / "answers.safetensors";
  args = {packed.string(), text.string(), std::to_string(kWindows), std::to_string(kTokens),
          answers.string()};
  args.insert(args.end(), GetParam().loaders.begin(), GetParam().loaders.end());
  ASSERT_NO_FATAL_FAILURE(run_python("read_folder.py", args, folder_ / "log"));
  const SafetensorsFile file(answers);
  EXPECT_TRUE(at::equal(file.view("ids"), rows));
  for (const std::string& loader : GetParam().loaders) {
    const double distance = relative_distance(file.view(loader + ".logits"), logits);
    const at::Tensor theirs = file.view(loader + ".losses");
    const at::Tensor ours = at::tensor(at::ArrayRef<double>(losses), at::kDouble);
    const double perplexity = std::exp(ours.mean().item<double>());
    const double their_perplexity = std::exp(theirs.mean().item<double>());
    std::cout << loader << ": logits differ by " << distance << ", perplexity " << their_perplexity
              << " and here " << perplexity << "\n";
    EXPECT_LT(distance, 1e-2) << loader;
    EXPECT_NEAR(their_perplexity / perplexity, 1, 5e-3) << loader;
  }
}

// Codes and order are what formats differ in: rtn makes them in seconds, gptq where the order is
// its own.
const OurFolder kOurFolders[] = {
    {"FourBitsSymmetric",
     {"--dtype", "float32"},
     {"gptqmodel", "transformers", "auto_round", "onnxruntime"}},
    {"FourBitsActOrder",
     {"--dtype", "float32", "--no-static-groups", "--no-true-sequential"},
     {"gptqmodel", "transformers", "onnxruntime"}},
    {"FourBitsAsymmetric",
     {"--no-symmetric", "--set", "method.name=rtn"},
     {"gptqmodel", "transformers", "auto_round"}},
    {"EightBits",
     {"--bits", "8", "--set", "method.name=rtn"},
     {"gptqmodel", "auto_round", "onnxruntime"}},
    {"ThreeBits", {"--bits", "3", "--set", "method.name=rtn"}, {"gptqmodel", "auto_round"}},
    {"LayersOfTheirOwn",
     {"--shard-size", "0.05", "--set", "method.name=rtn", "--set",
      "overrides=[{match: \"*.v_proj\", quant.bits: 8, quant.group_size: 32}, "
      "{match: \"model.layers.1.*o_proj\", skip: true}]"},
     {"gptqmodel", "auto_round"}},
};

INSTANTIATE_TEST_SUITE_P(Formats, OurFolders, testing::ValuesIn(kOurFolders),
                         [](const auto& folder) { return folder.param.name; });

class TheirFolders : public testing::TestWithParam<const char*> {
 protected:
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// What a tool writes of a tiny LLaMA is sound, needs no note, and answers here as in the tool's own
// loader.
TEST_P(TheirFolders, AnswerHereAsInTheirOwnLoader) {
  GPTQB_REQUIRE_LOADERS();
  ASSERT_NO_FATAL_FAILURE(
      run_python("write_folders.py", {GetParam(), folder_.string()}, folder_ / "log"));
  int folders = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++folders;
    const fs::path packed = fs::path(entry.path()).replace_extension();
    SCOPED_TRACE(packed.filename().string());
    const PackedReport report = validate_packed(packed, "auto", folder_ / "dense");
    EXPECT_THAT(report.faults, testing::IsEmpty());
    const SafetensorsFile theirs(entry.path());
    const auto model = open_model(packed, {.dtype = "float32"});
    // The layers that its rules leave dense are named.
    EXPECT_EQ(model->notes().size(), packed.filename() == "mixed_v1" ? 1u : 0u);
    EXPECT_GT(model->packed_share().weights, 0);
    const at::Tensor logits = run_model(*model, theirs.view("ids"))[0];
    EXPECT_GT(logits.abs().max().item<double>(), 0.5);
    EXPECT_LT(largest_difference(logits, theirs.view("logits")), 1e-4);
  }
  EXPECT_GE(folders, 4);
}

INSTANTIATE_TEST_SUITE_P(Tools, TheirFolders, testing::Values("gptqmodel", "llmcompressor"),
                         [](const auto& tool) { return std::string(tool.param); });

}  // namespace
}  // namespace gptqb::test
