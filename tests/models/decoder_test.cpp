#include "models/decoder.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

at::Tensor some_ids() { return (at::arange(12, at::kLong) * 7).remainder(48).reshape({2, 6}); }

// PK-13: four toys.
TEST(TiedHead, LoadsOrRefusesByFlagAndTensors) {
  const SafetensorsFile golden(golden_folder("llama_gqa_tied") / "golden.safetensors");
  const auto difference = [&](const EditedModel& model) {
    return largest_difference(run_model(*model.open(), golden.view("ids")), golden.view("logits"));
  };
  EditedModel tied("llama_gqa_tied");
  ASSERT_FALSE(tied.tensors.contains("lm_head.weight"));
  EXPECT_LT(difference(tied), 1e-3);
  const int64_t parameters = tied.open()->parameter_count();

  EditedModel identical("llama_gqa_tied");
  identical.tensors["lm_head.weight"] = identical.tensors["model.embed_tokens.weight"].clone();
  EXPECT_LT(difference(identical), 1e-3);
  EXPECT_EQ(identical.open()->parameter_count(), parameters);

  EditedModel different("llama_gqa_tied");
  different.tensors["lm_head.weight"] = different.tensors["model.embed_tokens.weight"] + 1;
  EXPECT_THAT(different.open_error(),
              AllOf(HasSubstr("tensor 'lm_head.weight'"),
                    HasSubstr("expected the same values as 'model.embed_tokens.weight'"),
                    HasSubstr("tie_word_embeddings")));

  EditedModel untied("llama_gqa_tied");
  untied.config["tie_word_embeddings"] = false;
  EXPECT_THAT(untied.open_error(),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("tie_word_embeddings is false")));
  untied.tensors["lm_head.weight"] = untied.tensors["model.embed_tokens.weight"].clone();
  EXPECT_LT(difference(untied), 1e-3);
  EXPECT_EQ(untied.open()->parameter_count(), parameters + 48 * 32);
}

// ML-05: one family, several prefixes.
TEST(Prefixes, AllSpellingsLoadToTheSameLogits) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"opt_pre_norm", "model.decoder.", "decoder."},
      {"opt_350m", "model.decoder.", "decoder."},
      {"llama_mha", "model.", ""}};
  for (const auto& [variant, from, to] : cases) {
    const auto original = open_model(golden_folder(variant), {"float32", at::kCPU});
    EditedModel renamed(variant);
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, tensor] : renamed.tensors)
      tensors[name.starts_with(from) ? to + name.substr(from.size()) : name] = tensor;
    renamed.tensors = tensors;
    const auto model = renamed.open();
    EXPECT_EQ(model->block_name(1), original->block_name(1));
    EXPECT_TRUE(at::equal(run_model(*model, some_ids()), run_model(*original, some_ids())))
        << variant;
  }
}

// ML-15
TEST(DamagedWeights, TensorAndPositionAreNamed) {
  EditedModel model("llama_mha");
  model.tensors["model.layers.1.mlp.down_proj.weight"][3][17] =
      std::numeric_limits<float>::quiet_NaN();
  const auto opened = model.open();
  opened->load_block(0);
  EXPECT_THAT(error_of([&] { opened->load_block(1); }),
              AllOf(HasSubstr("model.safetensors, tensor 'model.layers.1.mlp.down_proj.weight'"),
                    HasSubstr("got NaN or infinity at [3, 17]")));
  EditedModel embedding("llama_mha");
  embedding.tensors["model.embed_tokens.weight"][40][2] = std::numeric_limits<float>::infinity();
  const auto other = embedding.open();
  EXPECT_THAT(error_of([&] { other->embed(some_ids()); }), HasSubstr("infinity at [40, 2]"));
}

TEST(DamagedWeights, WeightsBeyondTheDtypeAreNamed) {
  EditedModel model("llama_mha");
  model.tensors["model.norm.weight"][5] = 70000.0;
  const at::Tensor hidden = at::ones({1, 1, 32}, at::kHalf);
  const auto half = model.open("float16");
  EXPECT_THAT(
      error_of([&] { half->logits(hidden); }),
      AllOf(HasSubstr("'model.norm.weight'"),
            HasSubstr("expected weights that fit in float16, got one beyond 65504 at [5]")));
  EXPECT_EQ(error_of([&] { model.open("bfloat16")->logits(hidden.to(at::kBFloat16)); }), "");
}

TEST(Embed, RefusesIdsAndLengthsTheModelLacks) {
  const auto model = open_model(golden_folder("llama_mha"), {"float32", at::kCPU});
  at::Tensor ids = some_ids();
  ids[1][4] = 48;
  EXPECT_THAT(error_of([&] { model->embed(ids); }),
              HasSubstr("expected token ids in 0 .. 47, got 48 at [1, 4]"));
  ids[1][4] = -1;
  EXPECT_THAT(error_of([&] { model->embed(ids); }), HasSubstr("got -1 at [1, 4]"));
  EXPECT_EQ(model->embed(at::zeros({1, 64}, at::kLong)).size(1), 64);
  EXPECT_THAT(error_of([&] {
                model->embed(at::zeros({1, 65}, at::kLong));
              }),
              HasSubstr("expected at most 64 tokens a sequence (positions of the model), got 65"));
  EXPECT_THAT(error_of([&] { model->embed(at::zeros({4}, at::kLong)); }),
              HasSubstr("expected whole-number ids [sequences, seqlen]"));
  EXPECT_THAT(error_of([&] {
                model->embed(at::zeros({1, 4}));
              }),
              HasSubstr("expected whole-number ids"));
}

TEST(Blocks, LoadedOneAtATimeWithoutCopying) {
  const auto model = open_model(golden_folder("llama_mha"), {"float32", at::kCPU});
  EXPECT_THAT(error_of([&] { model->weight("mlp.up_proj"); }),
              HasSubstr("expected a loaded block, got none"));
  EXPECT_THAT(error_of([&] { model->load_block(2); }),
              HasSubstr("expected a block in 0 .. 1, got 2"));
  model->load_block(0);
  const void* first = model->weight("mlp.up_proj").const_data_ptr();
  EXPECT_THAT(
      error_of([&] { model->weight("mlp.up"); }),
      AllOf(HasSubstr("model.layers.0"), HasSubstr("expected the name of a linear, got 'mlp.up'")));
  EXPECT_THAT(error_of([&] { model->weight("input_layernorm"); }),
              HasSubstr("expected the name of a linear"));
  model->load_block(1);
  EXPECT_NE(model->weight("mlp.up_proj").const_data_ptr(), first);
  model->load_block(0);
  EXPECT_EQ(model->weight("mlp.up_proj").const_data_ptr(), first)
      << "weights of the same dtype are views of the file";
  model->release_block();
  EXPECT_THAT(error_of([&] { model->weight("mlp.up_proj"); }),
              HasSubstr("expected a loaded block, got none"));
}

TEST(Blocks, StagesBeyondTheLastAreRefused) {
  for (const char* variant : {"llama_mha", "opt_pre_norm"}) {
    const auto model = open_model(golden_folder(variant), {"float32", at::kCPU});
    model->load_block(0);
    BlockActivations activations = model->begin(model->embed(some_ids()));
    EXPECT_THAT(error_of([&] { model->run_stage(4, activations); }),
                HasSubstr("expected a stage in 0 .. 3, got 4"));
  }
}

// Codes 0..3 with scale 0.5 and zero 2: weights -1, -0.5, 0, 0.5.
QuantizedLinear some_quantized(int64_t out, int64_t in) {
  QuantizedLinear linear;
  linear.codes = (at::arange(out * in, at::kInt) * 5).remainder(4).to(at::kByte).reshape({out, in});
  linear.scales = at::full({out, 1}, 0.5);
  linear.zeros = at::full({out, 1}, 2, at::kByte);
  linear.bits = 2;
  linear.group_size = -1;
  return linear;
}

TEST(Replace, HoldsOverReleaseAndLoad) {
  for (const char* dtype : {"float32", "float16", "bfloat16"}) {
    const auto model = open_model(golden_folder("llama_biases"), {dtype, at::kCPU});
    const at::Tensor before = run_model(*model, some_ids());
    model->load_block(0);
    const at::Tensor kept = model->weight("mlp.down_proj").clone();
    const QuantizedLinear replacement = some_quantized(48, 32);
    model->replace("mlp.up_proj", replacement);
    const at::Tensor expected = ((replacement.codes.to(at::kFloat) - 2) * 0.5).to(model->dtype());
    EXPECT_TRUE(at::equal(model->weight("mlp.up_proj"), expected));
    EXPECT_EQ(model->weight("mlp.up_proj").scalar_type(), model->dtype());
    model->load_block(1);
    EXPECT_FALSE(at::equal(model->weight("mlp.up_proj"), expected));
    model->load_block(0);
    EXPECT_TRUE(at::equal(model->weight("mlp.up_proj"), expected));
    EXPECT_TRUE(at::equal(model->weight("mlp.down_proj"), kept));
    EXPECT_GT(largest_difference(run_model(*model, some_ids()), before), 0.01);
  }
}

// The replaced model is the model whose file holds the dequantized weight: bias and all else
// unchanged.
TEST(Replace, ComputesAsIfTheFileHeldTheWeights) {
  for (const char* variant : {"llama_biases", "opt_pre_norm", "opt_350m"}) {
    const bool is_llama = std::string(variant) == "llama_biases";
    const std::string linear = "self_attn.q_proj";
    const auto model = open_model(golden_folder(variant), {"float32", at::kCPU});
    const QuantizedLinear replacement = some_quantized(32, 32);
    model->load_block(1);
    model->replace(linear, replacement);
    EditedModel edited(variant);
    edited
        .tensors[(is_llama ? "model.layers.1." : "model.decoder.layers.1.") + linear + ".weight"] =
        (replacement.codes.to(at::kFloat) - 2) * 0.5;
    EXPECT_TRUE(at::equal(run_model(*model, some_ids()), run_model(*edited.open(), some_ids())))
        << variant;
  }
}

// Finished blocks on a shelf: what was put there, by block.
struct MemoryShelf : ReplacedShelf {
  std::map<std::string, KeptLinear> linears(int64_t block) override {
    asked.push_back(block);
    return blocks.at(block);
  }
  std::map<int64_t, std::map<std::string, KeptLinear>> blocks;
  std::vector<int64_t> asked;
};

// Whether codes stay in memory or come from a shelf, a block computes the same bits again.
TEST(Replace, ComesBackFromAShelfBitByBit) {
  const std::vector<std::pair<std::string, LinearReplacement>> replacements = {
      {"mlp.up_proj", some_quantized(48, 32)},
      {"self_attn.q_proj", TransformedLinear{some_quantized(32, 32), at::linspace(0.5, 1.5, 32)}},
      {"self_attn.k_proj", quantize_int8(at::linspace(-1, 1, 32 * 32).view({32, 32}), 6.0)},
      {"mlp.down_proj", DenseWeights{at::linspace(-1, 1, 48 * 32).view({32, 48})}}};
  for (const char* dtype : {"float32", "float16", "bfloat16"}) {
    const auto kept = open_model(golden_folder("llama_mha"), {dtype, at::kCPU});
    const auto left = open_model(golden_folder("llama_mha"), {dtype, at::kCPU});
    MemoryShelf shelf;
    left->leave_replaced_to(&shelf);
    for (CausalLm* model : {kept.get(), left.get()})
      for (const int64_t block : {0, 1}) {
        model->load_block(block);
        for (const auto& [linear, replacement] : replacements) {
          model->replace(linear, replacement);
          shelf.blocks[block][linear] = replacement;
        }
      }
    EXPECT_TRUE(shelf.asked.empty());
    EXPECT_TRUE(at::equal(run_model(*left, some_ids()), run_model(*kept, some_ids()))) << dtype;
    EXPECT_EQ(shelf.asked, (std::vector<int64_t>{0, 1}));
  }
}

TEST(Replace, ABlockThatNobodyKeepsIsNotLoadedAgain) {
  const auto model = open_model(golden_folder("llama_mha"), {"float32", at::kCPU});
  model->leave_replaced_to(nullptr);
  model->load_block(0);
  model->replace("mlp.up_proj", some_quantized(48, 32));
  model->load_block(1);
  EXPECT_THAT(
      error_of([&] { model->load_block(0); }),
      HasSubstr("[block 0] expected a block that is kept, got one whose codes were let go"));
  MemoryShelf shelf;
  shelf.blocks[0]["mlp.down_proj"] = LinearReplacement(some_quantized(32, 48));
  model->leave_replaced_to(&shelf);
  EXPECT_THAT(error_of([&] { model->load_block(0); }),
              HasSubstr("expected codes of mlp.up_proj among the finished blocks, got none"));
}

TEST(Replace, RefusesAnotherShape) {
  const auto model = open_model(golden_folder("llama_mha"), {"float32", at::kCPU});
  model->load_block(1);
  EXPECT_THAT(error_of([&] { model->replace("mlp.up_proj", some_quantized(32, 48)); }),
              AllOf(HasSubstr("model.layers.1.mlp.up_proj"),
                    HasSubstr("expected codes of shape 48 x 32, got 32 x 48")));
}

// A model with replaced ends is the untied model whose file holds the dequantized weights,
// whichever of the two are replaced: a head that shared the embedding keeps the weights as loaded.
TEST(Ends, ComputeAsIfTheFileHeldTheWeights) {
  for (const char* variant : {"llama_gqa_tied", "llama_mha", "opt_350m", "bloom_6_heads"}) {
    const bool was_tied = std::string(variant) != "llama_mha";
    for (const bool embedding : {false, true}) {
      for (const bool head : {false, true}) {
        const auto model = open_model(golden_folder(variant), {"float32", at::kCPU});
        const int64_t before = model->parameter_count();
        const ModelExtras ends = model->extras();
        EXPECT_EQ(ends.tied_head, was_tied) << variant;
        EXPECT_EQ(ends.head, "lm_head");
        run_model(*model, some_ids());  // what is cached by then must not stay in use
        const int64_t width = ends.head_shape[1];
        const QuantizedLinear replacement = some_quantized(48, width);
        const at::Tensor weights = (replacement.codes.to(at::kFloat) - 2) * 0.5;
        if (embedding) model->replace_end(ModelEnd::kEmbedding, replacement);
        if (head) model->replace_end(ModelEnd::kHead, replacement);

        EditedModel edited(variant);
        edited.config["tie_word_embeddings"] = false;
        at::Tensor& table = edited.tensors.at(ends.embedding + ".weight");
        if (was_tied) edited.tensors["lm_head.weight"] = table.clone();
        if (head) edited.tensors["lm_head.weight"] = weights;
        if (embedding) table = weights;
        EXPECT_TRUE(at::equal(run_model(*model, some_ids()), run_model(*edited.open(), some_ids())))
            << variant << embedding << head;
        const bool untied = was_tied && (embedding || head);
        EXPECT_EQ(model->parameter_count(), before + (untied ? 48 * width : 0)) << variant;
        EXPECT_EQ(model->extras().tied_head, was_tied && !untied) << variant;
        if (embedding) {
          EXPECT_TRUE(at::equal(model->end_weight(ModelEnd::kEmbedding), weights)) << variant;
        }
        if (!head) {
          EXPECT_TRUE(at::equal(model->end_weight(ModelEnd::kHead),
                                edited.tensors["lm_head.weight"].to(at::kFloat)))
              << variant;
        }
      }
    }
  }
  const auto model = open_model(golden_folder("llama_mha"), {"float32", at::kCPU});
  EXPECT_THAT(error_of([&] { model->replace_end(ModelEnd::kHead, some_quantized(32, 48)); }),
              HasSubstr("[lm_head] expected codes of shape 48 x 32, got 32 x 48"));
}

// What the head multiplies is what logits are made of: final norm, and OPT-350M's projection.
TEST(Ends, HeadInputTimesTheHeadAreTheLogits) {
  for (const char* variant : {"llama_mha", "opt_pre_norm", "opt_350m", "bloom_post_norm"}) {
    const auto model = open_model(golden_folder(variant), {"float32", at::kCPU});
    const at::Tensor hidden = model->embed(some_ids());
    const at::Tensor head = model->end_weight(ModelEnd::kHead);
    EXPECT_TRUE(at::allclose(model->logits(hidden), at::matmul(model->head_input(hidden), head.t()),
                             1e-5, 1e-5))
        << variant;
    EXPECT_EQ(model->head_input(hidden).size(-1), model->extras().head_shape[1]);
  }
}

TEST(Device, CudaWithoutADeviceIsAnError) {
  if (at::hasCUDA()) GTEST_SKIP() << "needs a machine without CUDA";
  EXPECT_THAT(error_of([] {
                open_model(golden_folder("llama_mha"), {"auto", at::Device("cuda:0")});
              }),
              HasSubstr("[device] expected cpu, got cuda:0"));
}

}  // namespace
}  // namespace gptqb::test
