#include "models/checkpoint.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two shards with a and b, and the index as given.
class Sharded {
 public:
  Sharded() {
    write_safetensors(folder_.path() / "one.safetensors", {{"a", at::ones({2})}});
    write_safetensors(folder_.path() / "two.safetensors", {{"b", at::zeros({3})}});
  }
  std::string error(const std::string& weight_map) const {
    return error_of([&] { open(weight_map); });
  }
  TensorReader open(const std::string& weight_map) const {
    write_text(folder_.path() / "model.safetensors.index.json",
               "{\"weight_map\":" + weight_map + "}");
    return TensorReader(folder_.path());
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST(TensorReader, ReadsShards) {
  const Sharded folder;
  const TensorReader reader = folder.open(R"({"a": "one.safetensors", "b": "two.safetensors"})");
  EXPECT_THAT(reader.names(), ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(reader.view("b").numel(), 3);
  EXPECT_THAT(reader.describe("b"), HasSubstr("two.safetensors, tensor 'b'"));
  EXPECT_THAT(error_of([&] { reader.view("c"); }), HasSubstr("expected a tensor 'c', got none"));
}

// PK-18: three defects, three messages.
TEST(TensorReader, IndexAndShardsMustAgree) {
  const Sharded folder;
  EXPECT_THAT(
      folder.error(R"({"a": "one.safetensors", "c": "one.safetensors", "b": "two.safetensors"})"),
      HasSubstr("the shard lacks: c (in one.safetensors)"));
  EXPECT_THAT(folder.error(R"({"a": "one.safetensors", "b": "three.safetensors"})"),
              HasSubstr("expected all shards it names, got none of: three.safetensors"));
  write_safetensors(folder.path() / "two.safetensors",
                    {{"b", at::zeros({3})}, {"d", at::zeros({3})}});
  EXPECT_THAT(folder.error(R"({"a": "one.safetensors", "b": "two.safetensors"})"),
              HasSubstr("expected an index entry for each tensor of the shards, got none for: d "
                        "(in two.safetensors)"));
}

TEST(TensorReader, IndexStaysInsideTheFolder) {
  const Sharded folder;
  for (const char* file : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", ""})
    EXPECT_THAT(folder.error("{\"a\": \"" + std::string(file) + "\"}"),
                HasSubstr("expected a file in the folder itself for tensor 'a'"));
  EXPECT_THAT(folder.error("[]"), HasSubstr("expected an object 'weight_map'"));
  EXPECT_THAT(folder.error(R"({"a": "one.safetensors", "a": "two.safetensors"})"),
              HasSubstr("duplicate 'a'"));
}

TEST(TensorReader, PickledWeightsAreRefusedWithAWayOut) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { TensorReader reader(folder.path()); }),
              HasSubstr("expected model.safetensors or model.safetensors.index.json, got neither"));
  write_text(folder.path() / "pytorch_model.bin", "x");
  EXPECT_THAT(
      error_of([&] { TensorReader reader(folder.path()); }),
      AllOf(HasSubstr("pickled weights (pytorch_model.bin)"), HasSubstr("save_pretrained")));
  EXPECT_THAT(error_of([&] { TensorReader reader(folder.path() / "none"); }),
              HasSubstr("expected a model folder"));
}

TEST(TensorReader, FindsTheFirstNonFiniteValue) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      at::Tensor values = at::linspace(-60000, 60000, 10000).to(dtype);
      EXPECT_EQ(first_non_finite(values), -1);
      values[9000] = bad;
      values[9999] = bad;
      EXPECT_EQ(first_non_finite(values), 9000);
    }
  }
  EXPECT_EQ(first_non_finite(at::empty({0})), -1);
}

// PK-23, and the issue's list of bad input: missing, extra, wrong shape, wrong dtype.
TEST(Checkpoint, TensorsMustBeThoseOfTheArchitecture) {
  {
    EditedModel model("llama_gqa_tied");
    model.tensors.erase("model.layers.1.mlp.up_proj.weight");
    EXPECT_THAT(
        model.open_error(),
        HasSubstr("expected tensors that the checkpoint lacks: model.layers.1.mlp.up_proj.weight"));
  }
  {
    EditedModel model("llama_gqa_tied");
    model.tensors["model.layers.0.self_attn.q_norm.weight"] = at::ones({8});
    EXPECT_THAT(model.open_error(),
                AllOf(HasSubstr("got also: model.layers.0.self_attn.q_norm.weight")));
  }
  {
    EditedModel model("llama_gqa_tied");
    model.config["num_hidden_layers"] = 1;
    EXPECT_THAT(model.open_error(),
                AllOf(HasSubstr("model.layers.1.input_layernorm.weight"), HasSubstr("and 4 more")));
  }
  {
    EditedModel model("llama_gqa_tied");
    model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4});
    EXPECT_EQ(model.open_error(), "");
  }
  {
    EditedModel model("llama_gqa_tied");
    model.tensors["model.norm.weight"] = at::ones({31});
    EXPECT_THAT(model.open_error(),
                AllOf(HasSubstr("tensor 'model.norm.weight'"),
                      HasSubstr("expected shape [32] (from config.json), got [31]")));
  }
  {
    EditedModel model("llama_gqa_tied");
    model.tensors["model.norm.weight"] = at::ones({32}, at::kDouble);
    EXPECT_THAT(model.open_error(), AllOf(HasSubstr("tensor 'model.norm.weight'"),
                                          HasSubstr("expected dtype F16, BF16 or F32, got F64")));
  }
}

TEST(Checkpoint, FingerprintFollowsConfigAndWeights) {
  EditedModel model("llama_gqa_tied");
  const std::string base = model.open()->fingerprint();
  EXPECT_EQ(model.open()->fingerprint(), base);
  model.config["rms_norm_eps"] = 1e-6;
  const std::string other_config = model.open()->fingerprint();
  EXPECT_NE(other_config, base);
  model.tensors["model.norm.weight"][3] = 2;
  EXPECT_NE(model.open()->fingerprint(), other_config);
}

}  // namespace
}  // namespace gptqb::test
