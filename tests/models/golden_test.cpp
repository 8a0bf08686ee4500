// Logits against transformers' for a tiny random model of each variant
// (scripts/make_golden_models.py).
#include <gmock/gmock.h>

#include "models/architecture.h"
#include "tests/models/model_folder.h"
#include "tests/support/shared.h"

namespace gptqb::test {
namespace {

// The folders there are: a new one is tested without a line here.
std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder("")))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  Golden() : golden_(golden_folder(GetParam()) / "golden.safetensors") {}

  at::Tensor ids() const { return golden_.view("ids"); }
  at::Tensor logits() const { return golden_.view("logits"); }
  double scale() const { return logits().abs().max().item<double>(); }

  SafetensorsFile golden_;
};

TEST_P(Golden, LogitsInFloat32) {
  const auto model = open_model(golden_folder(GetParam()), {"float32", at::kCPU});
  const at::Tensor ours = run_model(*model, ids());
  EXPECT_EQ(ours.scalar_type(), at::kFloat);
  // Some hundred roundings of 2^-24 between two orders of summation.
  EXPECT_LT(largest_difference(ours, logits()), 3e-5 * scale());
}

// BI-08: half precision on the CPU. transformers' own float32 logits are the measure of what
// rounding does.
TEST_P(Golden, LogitsInTheCheckpointsDtype) {
  const auto model = open_model(golden_folder(GetParam()), {"auto", at::kCPU});
  const at::Tensor ours = run_model(*model, ids());
  EXPECT_EQ(ours.scalar_type(), model->dtype());
  const double epsilon = model->dtype() == at::kFloat  ? 1e-6
                         : model->dtype() == at::kHalf ? 1e-3
                                                       : 8e-3;
  EXPECT_LT(largest_difference(ours, logits()), 30 * epsilon * scale());
  if (!golden_.tensors().contains("logits_model_dtype")) return;
  const at::Tensor theirs = golden_.view("logits_model_dtype");
  const double typical = (ours.to(at::kDouble) - theirs).square().mean().sqrt().item<double>();
  const double rounding = (theirs - logits()).square().mean().sqrt().item<double>();
  EXPECT_LT(typical, rounding);
}

// AWQ's move: what a producer divides by, the linears' columns take back. Kept when the block is
// loaded again.
TEST_P(Golden, ScalesMoveWithoutChangingTheBlock) {
  const auto model = open_model(golden_folder(GetParam()), {"float32", at::kCPU});
  model->load_block(0);
  const at::Tensor hidden = model->embed(ids());
  const at::Tensor before = model->run_block(hidden);
  const ScalePlan plan = model->scale_plan();
  EXPECT_FALSE(plan.moves.empty());
  EXPECT_FALSE(plan.score_linears.empty());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(17);
  for (const ScaleMove& move : plan.moves) {
    const auto& linears = model->stages()[move.stage].linears;
    const int64_t columns = model->weight(linears.front()).size(1);
    const at::Tensor scale = at::rand({columns}, generator) * 3 + 0.25;
    model->divide_output(move.producer, scale);
    for (const std::string& linear : linears)
      model->replace(linear, DenseWeights{model->weight(linear) * scale});
    if (move.producer_is_linear)
      model->replace(move.producer,
                     DenseWeights{model->weight(move.producer) / scale.unsqueeze(1)});
    model->release_block();
    model->load_block(0);
    EXPECT_LT(largest_difference(model->run_block(hidden), before),
              2e-5 * before.abs().max().item<double>())
        << move.producer;
  }
  const at::Tensor weight = model->weight(plan.score_linears.front());
  model->try_weights(plan.score_linears.front(), weight * 2);
  EXPECT_GT(largest_difference(model->run_block(hidden), before), 1e-3);
  model->release_block();
  model->load_block(0);
  EXPECT_TRUE(at::equal(model->weight(plan.score_linears.front()), weight));
}

TEST_P(Golden, StagesOneByOneAreTheWholeBlock) {
  const auto model = open_model(golden_folder(GetParam()), {"float32", at::kCPU});
  model->load_block(0);
  const at::Tensor hidden = model->embed(ids());
  const at::Tensor before = hidden.clone();
  BlockActivations activations = model->begin(hidden);
  for (size_t stage = 0; stage < model->stages().size(); ++stage) {
    for (const std::string& linear : model->stages()[stage].linears) {
      const at::Tensor weight = model->weight(linear);
      ASSERT_EQ(weight.dim(), 2) << linear;
      ASSERT_EQ(activations.input.sizes().vec(), (std::vector<int64_t>{2, 40, weight.size(1)}))
          << linear;
    }
    const at::Tensor input = activations.input;
    const at::Tensor input_before = input.clone();
    model->run_stage(stage, activations);
    EXPECT_TRUE(at::equal(input, input_before))
        << "stage " << stage << " changed its caller's input";
  }
  EXPECT_FALSE(activations.input.defined());
  EXPECT_TRUE(at::equal(activations.residual, model->run_block(hidden)));
  EXPECT_TRUE(at::equal(hidden, before)) << "the block changed its caller's hidden states";
}

// ML-12: every sequence starts at position 0, and neighbours in a batch do not matter.
TEST_P(Golden, BatchSizeDoesNotMatter) {
  const auto model = open_model(golden_folder(GetParam()), {"float32", at::kCPU});
  const at::Tensor together = run_model(*model, ids());
  for (int64_t i = 0; i < 2; ++i) {
    const at::Tensor alone = run_model(*model, ids().narrow(0, i, 1));
    EXPECT_LT(largest_difference(alone[0], together[i]), 1e-5 * scale());
  }
  const at::Tensor prefix = run_model(*model, ids().narrow(1, 0, 7));
  EXPECT_LT(largest_difference(prefix, together.narrow(1, 0, 7)), 1e-5 * scale());
}

INSTANTIATE_TEST_SUITE_P(Variants, Golden, ::testing::ValuesIn(variants()),
                         [](const auto& test) { return test.param; });

// ML-08: a scaling that is ignored, or another factor, gives other logits, so the goldens above can
// tell.
TEST(GoldenContrast, RotaryScalingShowsInLogits) {
  for (const char* variant : {"llama_linear", "llama_llama3_8", "llama_llama3_32", "llama_yarn"}) {
    const SafetensorsFile golden(golden_folder(variant) / "golden.safetensors");
    EditedModel without(variant);
    without.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
    EXPECT_GT(
        largest_difference(run_model(*without.open(), golden.view("ids")), golden.view("logits")),
        0.1)
        << variant;
    EditedModel other(variant);
    other.config["rope_parameters"]["factor"] = 12.0;
    EXPECT_GT(
        largest_difference(run_model(*other.open(), golden.view("ids")), golden.view("logits")),
        1e-3)
        << variant;
  }
}

TEST(GoldenContrast, OldSpellingOfRotaryParametersIsTheSame) {
  for (const char* variant : {"llama_linear", "llama_llama3_8", "llama_yarn"}) {
    const SafetensorsFile golden(golden_folder(variant) / "golden.safetensors");
    EditedModel model(variant);
    nlohmann::json scaling = model.config["rope_parameters"];
    model.config.erase("rope_parameters");
    model.config["rope_theta"] = scaling["rope_theta"];
    scaling.erase("rope_theta");
    scaling["type"] = scaling["rope_type"];
    scaling.erase("rope_type");
    model.config["rope_scaling"] = scaling;
    EXPECT_LT(
        largest_difference(run_model(*model.open(), golden.view("ids")), golden.view("logits")),
        1e-3)
        << variant;
  }
}

// A checkpoint that other people's tools wrote and measured.
TEST(GoldenShared, PackedDenseHasItsPublishedLoss) {
  const auto folder = shared_root() / "models/packed";
  GPTQB_REQUIRE_PATH(folder);
  std::ifstream file(folder / "reference.json");
  const nlohmann::json reference = nlohmann::json::parse(file).at("dense");
  const auto model = open_model(folder / "dense", {"float32", at::kCPU});
  const at::Tensor ids = (at::arange(256, at::kLong) * 7919).remainder(508) + 4;
  const at::Tensor logits = run_model(*model, ids.unsqueeze(0))[0];
  const at::Tensor losses =
      -at::log_softmax(logits.narrow(0, 0, 255), -1).gather(1, ids.narrow(0, 1, 255).unsqueeze(1));
  EXPECT_NEAR(losses.to(at::kDouble).mean().item<double>(), reference.at("nll").get<double>(),
              5e-6);
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(logits[255][i].item<double>(),
                reference.at("last_logits_head")[static_cast<size_t>(i)].get<double>(), 5e-6);
  for (int64_t i = 0; i < 16; ++i)
    EXPECT_EQ(logits[i].argmax().item<int64_t>(),
              reference.at("argmax_first_16")[static_cast<size_t>(i)].get<int64_t>());
}

TEST(Architectures, FilesAndLinesAgree) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(GPTQB_SOURCE_DIR) / "models/arch"))
    if (entry.path().extension() == ".cpp") files.push_back(entry.path().stem().string());
  EXPECT_THAT(architectures().names(), ::testing::UnorderedElementsAreArray(files));
}

// Contract of every entry: a golden of its own, and full layer names that are tensors of the file.
TEST(Architectures, EachHasGoldensAndReadableNames) {
  for (const auto& entry : architectures().entries()) {
    bool found = false;
    for (const std::string& variant : variants()) {
      const auto model = open_model(golden_folder(variant), {"auto", at::kCPU});
      if (model->architecture() != entry.name) continue;
      found = true;
      const TensorReader reader(golden_folder(variant));
      for (const Stage& stage : model->stages())
        for (const std::string& linear : stage.linears) {
          const std::string layer = model->block_name(1) + "." + linear;
          EXPECT_TRUE(reader.has(layer + ".weight") || reader.has(layer + ".qweight") ||
                      reader.has(layer + ".weight_packed"))
              << variant << " " << linear;
        }
    }
    EXPECT_TRUE(found) << entry.name;
    EXPECT_FALSE(entry.summary.empty());
  }
}

}  // namespace
}  // namespace gptqb::test
