// `save`: the folder on disk is the model that was measured, and is there whole or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "common/atomic_file.h"
#include "models/checkpoint.h"
#include "models/packed_validate.h"
#include "runner/cli.h"
#include "runner/packed_evaluation.h"
#include "runner/record.h"
#include "tests/runner/run_program.h"
#include "tests/runner/spawned_program.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::steady_clock;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const fs::path kModel = GPTQB_SOURCE_DIR "/assets/quickstart-model";

class Save : public testing::Test {
 protected:
  // `lines` beside what all experiments here have.
  Outcome run(const std::string& name, const std::string& lines, const fs::path& model = kModel,
              const std::string& dtype = "auto") const {
    const fs::path file = folder_ / (name + ".yaml");
    write_file_atomically(file, "name: " + name + "\nmodel: {path: \"" + model.string() +
                                    "\", dtype: " + dtype +
                                    "}\n"
                                    "evaluate:\n"
                                    "  - perplexity: {datasets: [builtin], seqlen: 64, "
                                    "max_windows: 4}\n" +
                                    lines);
    return run_program({"run", file.string(), "--output", output(name).string()});
  }
  fs::path output(const std::string& name) const { return folder_ / ("out_" + name); }
  Record record(const std::string& name) const {
    const auto loaded = load_records(output(name)).records;
    EXPECT_EQ(loaded.size(), 1u);
    return loaded.empty() ? Record{} : loaded[0];
  }
  double metric(const std::string& name, const std::string& metric_name) const {
    const auto found = find_metric(record(name), metric_name);
    EXPECT_TRUE(found.has_value()) << metric_name;
    return found ? found->value : -1;
  }
  // Each row of the table of memory: what is added up, and what the process took; a cache of 512
  // tokens more, which is 6 blocks x keys and values of 2 heads of 32 in 2 bytes a token.
  static void expect_measured_near_predicted(const std::string& table) {
    std::istringstream lines(table);
    std::vector<double> predicted;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("weights") && !line.starts_with("  + cache")) continue;
      double first = 0, second = 0;
      ASSERT_EQ(std::sscanf(line.c_str() + 28, "%lf MiB %lf MiB", &first, &second), 2) << line;
      // Pages and small blocks of the heap.
      EXPECT_NEAR(second, first, 0.1 * first + 0.5) << line;
      predicted.push_back(first);
    }
    ASSERT_EQ(predicted.size(), 4u) << table;
    EXPECT_NEAR(predicted[1] - predicted[0], 0.75, 0.0011);
    EXPECT_NEAR(predicted[3] - predicted[2], 0.75, 0.0011);
    EXPECT_LT(predicted[0], predicted[2]);
  }
  static json parsed(const fs::path& path) { return json::parse(read_file(path)); }
  std::string save(const std::string& more = "") const {
    return "save: {path: \"" + packed_.string() + "\"" + more + "}\n";
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const fs::path packed_ = folder_ / "packed";
};

constexpr const char* kCalibration =
    "calibration: {dataset: builtin, samples: 4, seqlen: 64, heldout: 0}\n";

TEST_F(Save, TheFolderIsTheModelThatWasMeasured) {
  const Outcome outcome =
      run("made", std::string(kCalibration) +
                      "method: {name: gptq, act_order: true, static_groups: true}\n"
                      "quant: {bits: 4, group_size: 64, symmetric: true}\n" +
                      save());
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(record("made").notes,
              Contains(AllOf(HasSubstr(packed_.string() + ", gptq,"), HasSubstr("42 layers"))));
  EXPECT_FALSE(fs::exists(packed_.string() + ".incomplete"));

  // PK-19: both places say the same.
  const json settings = parsed(packed_ / "quantize_config.json");
  EXPECT_EQ(parsed(packed_ / "config.json").at("quantization_config"), settings);
  const json wanted = {{"quant_method", "gptq"},
                       {"bits", 4},
                       {"group_size", 64},
                       {"sym", true},
                       {"desc_act", false},
                       {"static_groups", true},
                       {"lm_head", false},
                       {"format", "gptq"},
                       {"checkpoint_format", "gptq"},
                       {"damp_percent", 0.01},
                       {"pack_dtype", "int32"}};
  for (const auto& [key, value] : wanted.items()) EXPECT_EQ(settings.at(key), value) << key;
  EXPECT_EQ(settings.at("meta").at("act_order"), true);
  EXPECT_FALSE(settings.contains("dynamic"));
  json config = parsed(packed_ / "config.json");
  config.erase("quantization_config");
  EXPECT_EQ(config, parsed(kModel / "config.json"));
  for (const char* file :
       {"tokenizer.model", "tokenizer_config.json", "generation_config.json", "MODEL_LICENSE"})
    EXPECT_EQ(read_file(packed_ / file), read_file(kModel / file)) << file;

  // PK-14, PK-15: as readers of the format want it; PK-13: a tied head is no tensor of its own.
  const SafetensorsFile file(packed_ / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_FALSE(file.tensors().contains("lm_head.weight"));
  double bytes = 0;
  for (const auto& [name, info] : file.tensors()) {
    bytes += static_cast<double>(info.end - info.begin);
    // PK-22: no packed tensor is all zeros by mistake.
    if (name.ends_with("qweight")) {
      EXPECT_TRUE(file.view(name).ne(0).any().item<bool>()) << name;
    }
  }
  EXPECT_EQ(metric("made", "bytes.checkpoint"), bytes);

  ASSERT_EQ(run("read", "method: {name: none}\n", packed_).code, kExitOk);
  EXPECT_EQ(metric("read", "perplexity.builtin"), metric("made", "perplexity.builtin"));
  // The index of 32 bits an input is in the file, though nobody needs it: of 192 or 512 inputs for
  // 64 to 512 outputs.
  EXPECT_GT(metric("read", "bits_per_weight.linear"), metric("made", "bits_per_weight.linear"));
  EXPECT_LT(metric("read", "bits_per_weight.linear"),
            metric("made", "bits_per_weight.linear") + 32.0 / 64);
  const Outcome seen = run_program({"inspect", packed_.string()});
  EXPECT_EQ(seen.code, kExitOk) << seen.err;
  EXPECT_THAT(seen.out, AllOf(HasSubstr("llama, 6 blocks"),
                              HasSubstr("42 of 4 bits, groups of 64, symmetric, gptq"),
                              HasSubstr("  + cache of 512 tokens")));
  expect_measured_near_predicted(run_program({"inspect", packed_.string(), "--measure"}).out);
  const Outcome sound = run_program({"validate", packed_.string(), "--dense", kModel.string()});
  EXPECT_EQ(sound.code, kExitOk) << sound.out;
  EXPECT_THAT(sound.out, HasSubstr("42 packed layers, no fault found"));
  const fs::path converted = folder_ / "converted";
  EXPECT_EQ(
      run_program({"convert", packed_.string(), "--format", "gptq_v2", "--out", converted.string()})
          .code,
      kExitOk);
  EXPECT_EQ(parsed(converted / "quantize_config.json").at("checkpoint_format"), "gptq_v2");
  EXPECT_EQ(read_file(converted / "tokenizer.model"), read_file(kModel / "tokenizer.model"));
  // What is packed is not quantized again.
  const Outcome again = run("again", "method: {name: rtn}\n", packed_);
  EXPECT_EQ(again.code, kExitBadInput);
  EXPECT_THAT(again.err, HasSubstr("whose weights are quantized already"));
}

// PK-20, PK-21, and the widest use of the format: groups in sweep order, layers of their own,
// shards, and a model of bfloat16.
// CQ-style checks of codes cannot see a kernel that multiplies wrongly: both paths are measured.
TEST_F(Save, BothPathsAreMeasured) {
  const std::string lines = std::string(kCalibration) +
                            "method: {name: gptq, act_order: true}\n"
                            "quant: {bits: 3, group_size: 64, symmetric: false}\n" +
                            save();
  ASSERT_EQ(run("both", lines, kModel, "float32").code, kExitOk);
  const Record both = record("both");
  const auto dequantized = find_metric(both, "perplexity.builtin");
  const auto packed = find_metric(both, "perplexity_packed.builtin");
  const auto difference = find_metric(both, "packed_difference.builtin");
  ASSERT_TRUE(dequantized && packed && difference);
  EXPECT_EQ(packed->count, dequantized->count);
  EXPECT_NE(packed->value, dequantized->value) << "float16 by kernels, float32 dequantized";
  EXPECT_NEAR(std::log(packed->value) - std::log(dequantized->value), difference->value, 1e-9);
  EXPECT_LT(std::abs(difference->value), kPackedLossBound / 10);
  EXPECT_EQ(both.policies.at("packed_products"), "cpu_rows");
  EXPECT_THAT(both.notes, Contains(HasSubstr("the model computes in float32, packed kernels in "
                                             "float16")));

  // The folder by itself, by the same kernels.
  ASSERT_EQ(run("kernels", "method: {name: none}\n", packed_, "float16, backend: packed").code,
            kExitOk);
  EXPECT_EQ(metric("kernels", "perplexity.builtin"), packed->value);
  EXPECT_EQ(record("kernels").policies.at("packed_products"), "cpu_rows");
  const Outcome wide = run("wide", "method: {name: none}\n", packed_, "float32, backend: packed");
  EXPECT_EQ(wide.code, kExitFailed);
  EXPECT_THAT(record("wide").reason,
              HasSubstr("expected a model of float16 or bfloat16 for packed products"));
}

TEST_F(Save, APackedPathThatIsFarOffFailsTheCell) {
  ASSERT_EQ(run("far", std::string(kCalibration) +
                           "method: {name: gptq}\nquant: {bits: 4, group_size: 64, symmetric: "
                           "true}\n" +
                           save())
                .code,
            kExitOk);
  Record made = record("far");
  const Cell cell = Cell::from_json(made.cell);
  InputCache cache(folder_, folder_);
  RunOptions options;
  const PreparedCell prepared = prepare_cell(cell, cache, options);
  for (Metric& metric : made.metrics)
    if (metric.name == "perplexity.builtin")
      for (double& loss : metric.samples) loss += 2 * kPackedLossBound;
  EXPECT_THAT(test::message_of([&] { evaluate_saved(packed_, cell, prepared, options, made); }),
              AllOf(HasSubstr("packed_difference.builtin]"), HasSubstr("by cpu_rows")));
}

TEST_F(Save, OverridesActOrderAndShards) {
  const Outcome outcome = run("made",
                              std::string(kCalibration) +
                                  "method: {name: gptq, act_order: true}\n"
                                  "quant: {bits: 3, group_size: 48}\n"
                                  "overrides:\n"
                                  "  - {match: \"*.v_proj\", quant.bits: 8}\n"
                                  "  - {match: \"model.layers.1.*o_proj\", skip: true}\n" +
                                  save(", shard_size: 0.0005"),
                              kModel, "bfloat16");
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const json settings = parsed(packed_ / "quantize_config.json");
  EXPECT_EQ(settings.at("checkpoint_format"), "gptq_v2");
  EXPECT_EQ(settings.at("desc_act"), true);
  const json& rules = settings.at("dynamic");
  EXPECT_EQ(rules.size(), 7u);
  EXPECT_EQ(rules.at(R"(+:^model\.layers\.0\.self_attn\.v_proj$)"), json({{"bits", 8}}));
  EXPECT_EQ(rules.at(R"(-:^model\.layers\.1\.self_attn\.o_proj$)"), json::object());

  const json index = parsed(packed_ / "model.safetensors.index.json");
  EXPECT_GT(TensorReader(packed_).names().size(), 6u * 7u);
  std::set<std::string> files;
  for (const auto& [name, file] : index.at("weight_map").items()) files.insert(file);
  EXPECT_GT(files.size(), 2u);
  int64_t bytes = 0;
  for (const std::string& name : files) {
    const SafetensorsFile file(packed_ / name);
    EXPECT_EQ(file.metadata().at("format"), "pt");
    int64_t own = 0;
    for (const auto& [tensor, info] : file.tensors()) {
      own += static_cast<int64_t>(info.end - info.begin);
      const bool scales = tensor.ends_with(".scales");
      if (scales || tensor.ends_with(".weight")) {
        EXPECT_EQ(info.dtype, scales ? at::kHalf : at::kBFloat16) << tensor;
      }
    }
    EXPECT_TRUE(own <= 500000 || file.tensors().size() == 1) << name;
    bytes += own;
  }
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes);

  ASSERT_EQ(run("read", "method: {name: none}\n", packed_).code, kExitOk);
  EXPECT_EQ(metric("read", "perplexity.builtin"), metric("made", "perplexity.builtin"));
  EXPECT_THAT(record("read").notes, Contains(HasSubstr("1 linears of blocks are dense in it")));
}

// A head of codes is a tensor of its own, whatever it was before: the embedding stays dense.
TEST_F(Save, AQuantizedHeadIsWrittenUntied) {
  const std::string lines = std::string(kCalibration) +
                            "method: {name: gptq, act_order: true, static_groups: true}\n"
                            "quant: {bits: 4, group_size: 64, symmetric: true, head: 8}\n" +
                            save();
  const Outcome outcome = run("made", lines);
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const json settings = parsed(packed_ / "quantize_config.json");
  EXPECT_EQ(settings.at("lm_head"), true);
  EXPECT_EQ(settings.at("dynamic"), json({{"+:^lm_head$", {{"bits", 8}}}}));
  EXPECT_EQ(parsed(packed_ / "config.json").at("tie_word_embeddings"), false);
  EXPECT_EQ(parsed(kModel / "config.json").at("tie_word_embeddings"), true);
  const TensorReader tensors(packed_);
  EXPECT_TRUE(tensors.has("lm_head.qweight"));
  EXPECT_FALSE(tensors.has("lm_head.weight"));
  EXPECT_TRUE(tensors.has("model.embed_tokens.weight"));
  EXPECT_EQ(tensors.info("lm_head.qweight").shape, (std::vector<int64_t>{192 / 4, 2048}));

  ASSERT_EQ(run("read", "method: {name: none}\n", packed_).code, kExitOk);
  EXPECT_EQ(metric("read", "perplexity.builtin"), metric("made", "perplexity.builtin"));
  const Outcome sound = run_program({"validate", packed_.string(), "--dense", kModel.string()});
  EXPECT_EQ(sound.code, kExitOk) << sound.out;
  EXPECT_THAT(sound.out, HasSubstr("43 packed layers, no fault found"));
  const fs::path converted = folder_ / "converted";
  ASSERT_EQ(
      run_program({"convert", packed_.string(), "--format", "gptq_v2", "--out", converted.string()})
          .code,
      kExitOk);
  ASSERT_EQ(run("converted", "method: {name: none}\n", converted).code, kExitOk);
  EXPECT_EQ(metric("converted", "perplexity.builtin"), metric("made", "perplexity.builtin"));
  EXPECT_EQ(run_program({"validate", converted.string()}).code, kExitOk);
}

// The scales that AWQ moves are in norms and in other codes: an ordinary folder says all of it.
TEST_F(Save, AwqIsWrittenWithTheScalesThatItMoved) {
  const Outcome outcome = run("made", std::string(kCalibration) +
                                          "method: {name: awq}\n"
                                          "quant: {bits: 4, group_size: 64}\n" +
                                          save());
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(parsed(packed_ / "quantize_config.json").at("meta").at("method"), "awq");
  EXPECT_FALSE(at::equal(TensorReader(packed_).view("model.layers.0.input_layernorm.weight"),
                         TensorReader(kModel).view("model.layers.0.input_layernorm.weight")));
  ASSERT_EQ(run("read", "method: {name: none}\n", packed_).code, kExitOk);
  EXPECT_EQ(metric("read", "perplexity.builtin"), metric("made", "perplexity.builtin"));
}

// A finished cell is kept while its folder is there, and only then; a folder of others is left
// alone.
TEST_F(Save, AFolderThatIsGoneIsMadeAgainAndOthersAreLeftAlone) {
  const std::string lines =
      "method: {name: rtn}\nquant: {bits: 4, group_size: 64, symmetric: true}\n" + save();
  ASSERT_EQ(run("made", lines).code, kExitOk);
  EXPECT_THAT(run("made", lines).err, HasSubstr("kept from an earlier run"));
  fs::remove_all(packed_);
  EXPECT_THAT(run("made", lines).err, HasSubstr("its packed checkpoint is not in"));
  EXPECT_TRUE(fs::exists(packed_ / "config.json"));
  // Another format is another folder.
  const std::string second =
      "method: {name: rtn}\nquant: {bits: 4, group_size: 64, symmetric: true}\n" +
      save(", format: gptq_v2");
  EXPECT_THAT(run("made", second).err, HasSubstr("its packed checkpoint is not in"));
  EXPECT_EQ(parsed(packed_ / "quantize_config.json").at("checkpoint_format"), "gptq_v2");
  // Other settings take the place of what this program wrote.
  const std::string other =
      "method: {name: rtn}\nquant: {bits: 8, group_size: 64, symmetric: true}\n" + save();
  ASSERT_EQ(run("other", other).code, kExitOk);
  EXPECT_EQ(parsed(packed_ / "quantize_config.json").at("bits"), 8);

  fs::remove(packed_ / "quantize_config.json");
  const Outcome refused = run("made", lines);
  EXPECT_EQ(refused.code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("Choose another save.path, or remove it"));
  EXPECT_TRUE(fs::exists(packed_ / "model.safetensors"));
}

// What is in the way of one cell's folder is told before the first cell runs, and by `plan`, which
// leaves nothing behind.
TEST_F(Save, FoldersAreLookedAtBeforeAnyWork) {
  const auto file = [&](const std::string& name, const fs::path& path) {
    write_file_atomically(folder_ / (name + ".yaml"),
                          "name: " + name + "\nmodel: {path: \"" + kModel.string() +
                              "\"}\nmethod: {name: rtn}\nquant: {group_size: 64}\n"
                              "sweep: {quant.bits: [2, 4]}\nsave: {path: \"" +
                              path.string() + "\"}\n");
    return (folder_ / (name + ".yaml")).string();
  };
  const auto refusals = [&](const std::string& name, const fs::path& path) {
    const std::string experiment = file(name, path);
    const Outcome planned = run_program({"plan", experiment});
    EXPECT_EQ(planned.code, kExitBadInput);
    EXPECT_THAT(planned.out, HasSubstr("rtn"));  // the table comes all the same
    const Outcome ran = run_program({"run", experiment, "--output", output(name).string()});
    EXPECT_EQ(ran.code, kExitBadInput);
    EXPECT_FALSE(fs::exists(output(name)));
    EXPECT_EQ(planned.err, ran.err);
    return ran.err;
  };
  ASSERT_EQ(run_program({"plan", file("good", packed_)}).code, kExitOk);
  EXPECT_FALSE(fs::exists(packed_));
  write_file_atomically(packed_ / "a file", "mine");
  EXPECT_THAT(refusals("file", packed_ / "a file"), HasSubstr("expected a folder as parent"));
  EXPECT_THAT(refusals("proc", "/proc/gptq-bench/packed"), HasSubstr("cannot make a folder in"));
  // One of two cells.
  const Outcome table = run_program({"plan", file("two", packed_)});
  std::string id;
  for (size_t at = 0; at + 16 <= table.out.size() && id.empty(); ++at)
    if (const std::string word = table.out.substr(at, 16);
        word.find_first_not_of("0123456789abcdef") == std::string::npos)
      id = word;
  ASSERT_FALSE(id.empty()) << table.out;
  write_file_atomically(packed_ / (id + ".incomplete") / "thesis.tex", "years");
  EXPECT_THAT(refusals("two", packed_), AllOf(HasSubstr(id + ".incomplete"),
                                              HasSubstr("what an interrupted run of gptq-bench")));
}

TEST_F(Save, ADiskWithoutRoomIsToldBeforeAnyWork) {
  // 80 GB a block, and no weight is made: only the sizes count.
  write_file_atomically(
      folder_ / "large.yaml",
      "name: large\nmodel: {synthetic: {architecture: llama, hidden_size: 65536, "
      "intermediate_size: 196608, heads: 64, layers: 2000, vocab_size: 200}, dtype: float16}\n"
      "method: {name: rtn}\nquant: {bits: 4, group_size: 128}\nsave: {path: \"" +
          packed_.string() + "\"}\n");
  const Outcome outcome = run_program({"plan", (folder_ / "large.yaml").string()});
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("expected room for at least"), HasSubstr("GB")));
}

// Two files of JSON are no checkpoint: what a kept cell needs is held against the weights, the
// model that was quantized and the shards asked for.
TEST_F(Save, ACellIsKeptOnlyWithTheFolderThatWasAskedFor) {
  const std::string lines = "method: {name: rtn}\nquant: {bits: 4, group_size: 64}\n";
  const auto again = [&](const std::string& more = "") {
    const Outcome outcome = run("made", lines + save(more));
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    return outcome.err;
  };
  again();
  const auto weights = packed_ / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 4);
  EXPECT_THAT(again(), HasSubstr("its packed checkpoint is not in"));
  fs::remove(weights);
  EXPECT_THAT(again(), HasSubstr("its packed checkpoint is not in"));
  EXPECT_TRUE(fs::exists(weights));
  EXPECT_THAT(again(", shard_size: 0.0005"), HasSubstr("its packed checkpoint is not in"));
  EXPECT_TRUE(fs::exists(packed_ / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(weights));
  EXPECT_THAT(again(", shard_size: 0.0005"), HasSubstr("kept from an earlier run"));
  // Made from another model, under the same name.
  json settings = parsed(packed_ / "quantize_config.json");
  settings["meta"]["source"] = "another";
  write_file_atomically(packed_ / "quantize_config.json", settings.dump());
  EXPECT_THAT(again(", shard_size: 0.0005"), HasSubstr("its packed checkpoint is not in"));
}

// The defaults are those that the widest range of loaders runs: and each can be overridden.
TEST_F(Save, OneCommandQuantizesAModel) {
  const auto quantize = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"quantize",     kModel.string(),
                                     "--out",        packed_.string(),
                                     "--dataset",    "builtin",
                                     "--samples",    "2",
                                     "--seqlen",     "64",
                                     "--output",     output("q").string(),
                                     "--group-size", "64",
                                     "--set",        "calibration.heldout=0"};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  };
  const Outcome outcome = quantize({});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  json settings = parsed(packed_ / "quantize_config.json");
  EXPECT_EQ(settings.at("bits"), 4);
  EXPECT_EQ(settings.at("sym"), true);
  EXPECT_EQ(settings.at("desc_act"), false);
  EXPECT_EQ(settings.at("static_groups"), true);
  EXPECT_EQ(settings.at("true_sequential"), true);
  EXPECT_EQ(settings.at("checkpoint_format"), "gptq");
  ASSERT_EQ(
      quantize({"--bits", "3", "--no-symmetric", "--no-static-groups", "--damping", "0.05"}).code,
      kExitOk);
  settings = parsed(packed_ / "quantize_config.json");
  EXPECT_EQ(settings.at("bits"), 3);
  EXPECT_EQ(settings.at("desc_act"), true);
  EXPECT_EQ(settings.at("checkpoint_format"), "gptq_v2");
  EXPECT_EQ(settings.at("damp_percent"), 0.05);
}

// What goes into an experiment, and so into records, is UTF-8: said of the option, before any work.
TEST_F(Save, PathsThatAreNoUtf8AreNamed) {
  const std::string odd = packed_.string() + "\xff";
  const Outcome out = run_program({"quantize", kModel.string(), "--out", odd});
  EXPECT_EQ(out.code, kExitBadInput);
  EXPECT_THAT(out.err,
              AllOf(HasSubstr("[--out] expected UTF-8"), HasSubstr("packed\xef\xbf\xbd'")));
  EXPECT_THAT(run_program({"quantize", odd, "--out", packed_.string()}).err,
              HasSubstr("[model] expected UTF-8"));
  // Names that only the file system sees may be anything.
  ASSERT_EQ(
      run("made", "method: {name: rtn}\nquant: {group_size: 64, symmetric: true}\n" + save()).code,
      kExitOk);
  fs::rename(packed_, odd);
  const std::string converted = folder_.string() + "/v2\xfe";
  const Outcome done =
      run_program({"convert", odd + "/", "--format", "gptq_v2", "--out", converted});
  EXPECT_EQ(done.code, kExitOk) << done.err;
  EXPECT_EQ(parsed(fs::path(converted) / "config.json")
                .at("quantization_config")
                .at("meta")
                .at("converted_from"),
            "packed\xef\xbf\xbd");
  EXPECT_EQ(run_program({"validate", converted}).code, kExitOk);
}

TEST_F(Save, SeveralCellsHaveAFolderEach) {
  ASSERT_EQ(
      run("made",
          "method: {name: rtn}\nquant: {group_size: 64}\nsweep: {quant.bits: [2, 4]}\n" + save())
          .code,
      kExitOk);
  const auto records = load_records(output("made")).records;
  ASSERT_EQ(records.size(), 2u);
  for (const Record& each : records)
    EXPECT_EQ(std::to_string(
                  parsed(packed_ / each.cell_id / "quantize_config.json").at("bits").get<int>()),
              each.setting("quant.bits"));
}

// Killed at any moment: never a folder that looks complete and is not, and the same bytes in the
// end.
TEST_F(Save, AKilledRunLeavesNoFolderThatIsNotWhole) {
  constexpr int kKills = 20;
  const auto command = [&](const std::string& name) {
    const fs::path file = folder_ / (name + ".yaml");
    write_file_atomically(
        file,
        "name: killed\n"
        "model: {synthetic: {architecture: llama, hidden_size: 64, intermediate_size: 192, "
        "heads: 4, layers: 12, vocab_size: 200}, dtype: float16}\n"
        "method: {name: rtn}\n"
        "quant: {bits: 4, group_size: 32}\n"
        "save: {path: \"" +
            (folder_ / name).string() + "\", shard_size: 0.0001}\n");
    return std::vector<std::string>{"run", file.string(), "--output", output(name).string()};
  };
  const std::string log = (folder_ / "log").string();
  const auto begins = [&](const std::string& name, test::SpawnedProgram& program) {
    while (program.running() && !fs::exists((folder_ / name).string() + ".incomplete"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return steady_clock::now();
  };
  double duration = 0;
  {
    test::SpawnedProgram program(command("whole"), log);
    const auto start = begins("whole", program);
    while (program.running() && !fs::exists(folder_ / "whole"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    duration = std::chrono::duration<double>(steady_clock::now() - start).count();
    ASSERT_EQ(program.wait(), kExitOk) << read_file(log);
  }
  std::mt19937_64 generator(20);
  int cut_short = 0;
  for (int i = 0; i < kKills; ++i) {
    const double moment = duration * std::uniform_real_distribution<double>(0, 1.2)(generator);
    fs::remove_all(folder_ / "killed.incomplete");  // so that it tells when writing begins
    test::SpawnedProgram program(command("killed"), log);
    const auto start = begins("killed", program);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<steady_clock::duration>(
                                              std::chrono::duration<double>(moment)));
    program.kill();
    const fs::path left = folder_ / "killed", begun = left.string() + ".incomplete";
    // What makes a folder a model is written last, under either name.
    if (fs::exists(begun / "config.json")) {
      EXPECT_THAT(validate_packed(begun).faults, testing::IsEmpty()) << moment;
    }
    if (fs::exists(left)) {
      EXPECT_THAT(validate_packed(left).faults, testing::IsEmpty()) << moment;
      fs::remove_all(left);
      fs::remove_all(output("killed"));
    } else {
      ++cut_short;
    }
  }
  EXPECT_GT(cut_short, 0);
  ASSERT_EQ(test::run_spawned(command("killed"), log), kExitOk) << read_file(log);
  for (const auto& entry : fs::directory_iterator(folder_ / "whole"))
    EXPECT_EQ(read_file(entry.path()), read_file(folder_ / "killed" / entry.path().filename()))
        << entry.path();
}

TEST_F(Save, WhatCannotBeWrittenIsRefusedBeforeAnyWork) {
  const auto refusal = [&](const std::string& lines, const std::string& more = "") {
    const Outcome outcome = run("refused", lines + save(more));
    EXPECT_EQ(outcome.code, kExitBadInput);
    EXPECT_FALSE(fs::exists(output("refused")));
    return outcome.err;
  };
  const std::string rtn = "method: {name: rtn}\n";
  EXPECT_THAT(refusal(rtn + "quant: {symmetric: false}\n", ", format: gptq"),
              HasSubstr("expected format: gptq_v2 with quant.symmetric: false"));
  EXPECT_THAT(refusal(rtn + "quant: {scale_dtype: float32}\n"),
              HasSubstr("expected quant.scale_dtype: float16"));
  EXPECT_THAT(refusal(rtn + "quant: {bits: ternary}\n"), HasSubstr("got ternary"));
  EXPECT_THAT(refusal(rtn + "quant: {embedding: 8}\n"), HasSubstr("quant.embedding: none"));
  EXPECT_THAT(refusal(rtn, ", shard_size: 1e30"), HasSubstr("save.shard_size"));
  EXPECT_THAT(refusal("method: {name: llm_int8}\n"), HasSubstr("got llm_int8"));
  // BLOOM has no norm or linear that could take the scales of its GELU.
  write_file_atomically(
      folder_ / "bloom.yaml",
      "name: bloom\nmodel: {synthetic: {architecture: bloom, hidden_size: 64, heads: 4, layers: 2, "
      "vocab_size: 200}}\nmethod: {name: awq}\nquant: {group_size: 32}\n" +
          std::string(kCalibration) + save());
  const Outcome bloom = run_program({"plan", (folder_ / "bloom.yaml").string()});
  EXPECT_EQ(bloom.code, kExitBadInput);
  EXPECT_THAT(bloom.err, HasSubstr("got some that move into an activation"));
  EXPECT_THAT(refusal("method: {name: none}\n"), HasSubstr("got no cell to save"));
}

}  // namespace
}  // namespace gptqb
