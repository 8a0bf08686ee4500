// `gptq-bench generate`: what a user gives and sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/atomic_file.h"
#include "datasets/tokenizer.h"
#include "models/causal_lm.h"
#include "runner/cli_commands.h"
#include "tests/models/model_folder.h"
#include "tests/runner/run_program.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kModel = GPTQB_SOURCE_DIR "/assets/quickstart-model";
const std::string kPrompt = "The castle was built in";

Outcome generate(std::vector<std::string> more, const std::string& model = kModel) {
  std::vector<std::string> args = {"generate", model};
  if (std::count(more.begin(), more.end(), "--max-tokens") == 0)
    args.insert(args.end(), {"--max-tokens", "16"});
  args.insert(args.end(), more.begin(), more.end());
  return run_program(args);
}

// The text behind `prompt`, the whole of it run again for each token.
std::string recomputed(const std::string& folder, const std::string& prompt, int64_t count,
                       const ModelOptions& options) {
  const auto model = open_model(folder, options);
  model->hold_blocks();
  const auto tokenizer = open_tokenizer(folder);
  std::vector<int32_t> ids = tokenizer->encode_with_special(prompt);
  const std::string before = tokenizer->decode(ids);
  for (; count > 0; --count) {
    const at::Tensor logits = test::run_model(*model, at::tensor(ids, at::kLong).unsqueeze(0));
    ids.push_back(logits[0][-1].argmax().item<int32_t>());
  }
  return tokenizer->decode(ids).substr(before.size());
}

class GenerateCommand : public testing::Test {
 protected:
  // The carried model with `key` of its config changed.
  std::string edited(const std::string& key, const json& value) const {
    const fs::path model = folder_.path() / "model";
    fs::copy(kModel, model);
    json config = json::parse(read_file(model / "config.json"));
    config[key] = value;
    write_file_atomically(model / "config.json", config.dump());
    return model.string();
  }
  const test::TemporaryFolder folder_;
};

TEST_F(GenerateCommand, WritesTheTextAndTellsTheRest) {
  const Outcome outcome = generate({kPrompt, "--dtype", "float32"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, recomputed(kModel, kPrompt, 16, {.dtype = "float32"}) + "\n");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("first token after "),
                    HasSubstr("generated: 16 tokens, 15 steps in "), HasSubstr("tokens per second"),
                    HasSubstr("kernels:   dense products of ATen in float32"),
                    HasSubstr("ended at:  max tokens (16)")));
}

// A packed folder is computed from its codes, unless that is turned off; both name what ran.
TEST_F(GenerateCommand, PackedModelsWriteToo) {
  const std::string packed = (folder_.path() / "packed").string();
  const Outcome made =
      run_program({"quantize", kModel, "--out", packed, "--dataset", "builtin", "--samples", "2",
                   "--seqlen", "64", "--group-size", "64", "--output",
                   (folder_.path() / "q").string(), "--set", "calibration.heldout=0"});
  ASSERT_EQ(made.code, kExitOk) << made.err;
  const Outcome codes = generate({kPrompt}, packed);
  ASSERT_EQ(codes.code, kExitOk) << codes.err;
  // 42 linears, for the prompt and for 15 steps.
  EXPECT_THAT(codes.err, HasSubstr("kernels:   cpu_rows (672 products)"));
  EXPECT_EQ(codes.out,
            recomputed(packed, kPrompt, 16, {.dtype = "float16", .backend = "packed"}) + "\n");
  const Outcome dense = generate({kPrompt, "--backend", "dense", "--dtype", "float32"}, packed);
  EXPECT_THAT(dense.err, HasSubstr("dense products of ATen in float32"));
  EXPECT_EQ(dense.out, recomputed(packed, kPrompt, 16, {.dtype = "float32"}) + "\n");
  // Kernels take 16 bits: float32 is dense by itself, and an error where codes are asked for.
  EXPECT_EQ(generate({kPrompt, "--dtype", "float32"}, packed).out, dense.out);
  EXPECT_THAT(generate({kPrompt, "--dtype", "float32", "--backend", "packed"}, packed).err,
              HasSubstr("expected a model of float16 or bfloat16 for packed products"));
  EXPECT_THAT(generate({kPrompt, "--backend", "packed"}).err,
              HasSubstr("expected a packed checkpoint"));
}

TEST_F(GenerateCommand, PromptsComeFromArgumentFileAndStandardInput) {
  const std::string wanted = generate({kPrompt}).out;
  const fs::path file = folder_.write("prompt.txt", kPrompt);
  EXPECT_EQ(generate({"--prompt-file", file.string()}).out, wanted);
  for (const bool by_option : {false, true}) {
    GenerateOptions options;
    options.folder = kModel;
    options.max_tokens = 16;
    if (by_option)
      options.prompt_file = "-";
    else
      options.prompt = "-";
    std::istringstream in(kPrompt);
    std::ostringstream out, err;
    EXPECT_EQ(generate_command(options, in, out, err), kExitOk);
    EXPECT_EQ(out.str(), wanted);
  }
  EXPECT_THAT(generate({}).err,
              HasSubstr("expected either a prompt or --prompt-file, got neither"));
  EXPECT_THAT(generate({kPrompt, "--prompt-file", file.string()}).err, HasSubstr("got both"));
  EXPECT_THAT(generate({"--prompt-file", "/nowhere"}).err,
              HasSubstr("expected a file that can be read, got '/nowhere'"));
}

TEST_F(GenerateCommand, OneSeedOneText) {
  const auto drawn = [](const std::string& seed) {
    return generate({kPrompt, "--temperature", "0.9", "--top-k", "40", "--top-p", "0.95", "--seed",
                     seed})
        .out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
  // The likeliest alone is drawn at any temperature.
  EXPECT_EQ(generate({kPrompt, "--temperature", "2", "--top-k", "1"}).out, generate({kPrompt}).out);
}

TEST_F(GenerateCommand, EndsAtStopTextsAndEndTokens) {
  std::string text = generate({kPrompt}).out;
  text.pop_back();
  // Letters of two words and the space between them: no token alone.
  const size_t space = text.find(' ', 8);
  ASSERT_NE(space, std::string::npos);
  const std::string stop = text.substr(space - 2, 4);
  const Outcome stopped = generate({kPrompt, "--stop", "never", "--stop", stop});
  EXPECT_EQ(stopped.out, text.substr(0, text.find(stop)) + "\n");
  EXPECT_THAT(stopped.err, HasSubstr("ended at:  stop text '" + stop + "'"));
  EXPECT_THAT(generate({kPrompt, "--stop", ""}).err, HasSubstr("[stop]"));

  const auto tokenizer = open_tokenizer(kModel);
  const auto ids = tokenizer->encode_with_special(kPrompt);
  const auto all = tokenizer->encode_with_special(kPrompt + text);
  // As one id in one file, and as one of several in the other.
  const std::string model = edited("eos_token_id", all.at(ids.size() + 3));
  const Outcome ended = generate({kPrompt}, model);
  EXPECT_THAT(ended.err, HasSubstr("ended at:  end token of the model"));
  EXPECT_LT(ended.out.size(), text.size());
  fs::copy(fs::path(kModel) / "config.json", fs::path(model) / "config.json",
           fs::copy_options::overwrite_existing);
  write_file_atomically(fs::path(model) / "generation_config.json",
                        json{{"eos_token_id", {2, all.at(ids.size() + 3)}}}.dump());
  EXPECT_EQ(generate({kPrompt}, model).out, ended.out);
}

TEST_F(GenerateCommand, TheStartTokenCanBeLeftOut) {
  EXPECT_THAT(generate({kPrompt, "--no-special-tokens"}).err, Not(HasSubstr("gptq-bench:")));
  const auto tokenizer = open_tokenizer(kModel);
  const size_t with = tokenizer->encode_with_special(kPrompt).size();
  ASSERT_EQ(with, tokenizer->encode(kPrompt).size() + 1);
  EXPECT_THAT(generate({kPrompt}).err, HasSubstr("prompt:    " + std::to_string(with) + " tokens"));
  EXPECT_THAT(generate({kPrompt, "--no-special-tokens"}).err,
              HasSubstr("prompt:    " + std::to_string(with - 1) + " tokens"));
  // From the start token alone, or from nothing.
  EXPECT_EQ(generate({""}).code, kExitOk);
  const Outcome nothing = generate({"", "--no-special-tokens"});
  EXPECT_EQ(nothing.code, kExitBadInput);
  EXPECT_THAT(nothing.err, HasSubstr("expected a prompt of one token or more, got none"));
}

TEST_F(GenerateCommand, MemoryIsLookedAtBeforeAnyWork) {
  const int64_t positions = 2000000000;
  const Outcome outcome = generate({kPrompt, "--max-tokens", std::to_string(positions - 100)},
                                   edited("max_position_embeddings", positions));
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("[memory of cpu] expected room for "), HasSubstr(" bytes, "),
                    HasSubstr(" (weights "), HasSubstr("cache of keys and values "),
                    HasSubstr(" free. Use a smaller "
                              "--max-tokens")));
}

TEST_F(GenerateCommand, WhatCannotBeDoneIsBadInput) {
  const auto refused = [](std::vector<std::string> args) {
    const Outcome outcome = generate(std::move(args));
    EXPECT_EQ(outcome.code, kExitBadInput);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(refused({kPrompt, "--max-tokens", "512"}),
              HasSubstr("expected a prompt and --max-tokens of at most 512 tokens together"));
  EXPECT_THAT(refused({kPrompt, "--max-tokens", "0"}), HasSubstr("from 1 on, got 0"));
  EXPECT_THAT(refused({kPrompt, "--temperature", "-1"}), HasSubstr("[temperature]"));
  EXPECT_THAT(refused({kPrompt, "--top-p", "0"}), HasSubstr("[top-p]"));
  EXPECT_THAT(refused({kPrompt, "--backend", "fast"}), HasSubstr("--backend"));
  EXPECT_THAT(refused({kPrompt, "--dtype", "int8"}), HasSubstr("int8"));
  // The tokenizer of another model: ids that this one lacks.
  const fs::path model = folder_.path() / "mixed";
  fs::copy(GPTQB_SOURCE_DIR "/tests/models/golden/llama_mha", model);
  for (const char* name : {"tokenizer.model", "tokenizer_config.json"})
    fs::copy(fs::path(kModel) / name, model / name, fs::copy_options::overwrite_existing);
  EXPECT_THAT(generate({kPrompt}, model.string()).err,
              HasSubstr("Tokenizer and model do not belong together"));
}

}  // namespace
}  // namespace gptqb
