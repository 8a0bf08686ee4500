// `validate`: good folders pass, and each planted fault is told in a line that names its place.
#include "models/packed_validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/packed_model.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = PackedModel::Kind;

const std::string kLayer = "model.layers.1.mlp.up_proj";

PackedReport validated(const PackedModel& model, const std::filesystem::path& dense = {}) {
  model.packed().write();
  return validate_packed(model.packed().path(), "auto", dense);
}

TEST(PackedValidate, GoodFoldersPass) {
  for (const Kind kind : {Kind::kV1, Kind::kV2, Kind::kCompressed})
    for (const bool symmetric : {true, false})
      for (const bool act_order : {true, false}) {
        PackedModel model(kind, {.group_size = 16, .symmetric = symmetric, .act_order = act_order});
        model.dense().write();
        const PackedReport report = validated(model, model.dense().path());
        EXPECT_THAT(report.faults, IsEmpty());
        EXPECT_THAT(report.notes, IsEmpty());
        EXPECT_EQ(report.layers, 14);
      }
}

struct Planted {
  const char* what;
  std::function<void(PackedModel&)> plant;
  std::string expected;
};

// Every one in a symmetric v2 folder of 4 bits in groups of 16.
TEST(PackedValidate, EachPlantedFaultIsFound) {
  const auto tensor = [](PackedModel& model, const char* part) -> at::Tensor& {
    return model.tensors().at(kLayer + "." + part);
  };
  const std::vector<Planted> faults = {
      {"qweight is missing", [&](PackedModel& m) { m.tensors().erase(kLayer + ".qweight"); },
       "lacks: model.layers.1.mlp.up_proj.weight"},
      {"scales are missing", [&](PackedModel& m) { m.tensors().erase(kLayer + ".scales"); },
       "up_proj.scales"},
      {"a norm is missing", [&](PackedModel& m) { m.tensors().erase("model.norm.weight"); },
       "lacks: model.norm.weight"},
      {"a tensor too many", [&](PackedModel& m) { m.tensors()[kLayer + ".extra"] = at::ones({1}); },
       "up_proj.extra"},
      {"codes of fewer inputs",
       [&](PackedModel& m) { tensor(m, "qweight") = tensor(m, "qweight").narrow(0, 0, 2).clone(); },
       "expected shape [4, 48], got [2, 48]"},
      {"zero points of fewer outputs",
       [&](PackedModel& m) { tensor(m, "qzeros") = tensor(m, "qzeros").narrow(1, 0, 5).clone(); },
       "expected shape [2, 6], got [2, 5]"},
      {"scales of one group",
       [&](PackedModel& m) { tensor(m, "scales") = tensor(m, "scales").narrow(0, 0, 1).clone(); },
       "expected shape [2, 48], got [1, 48]"},
      {"codes of another dtype",
       [&](PackedModel& m) { tensor(m, "qweight") = tensor(m, "qweight").to(at::kLong); },
       "expected dtype I32, got I64"},
      {"codes that were never packed", [&](PackedModel& m) { tensor(m, "qweight").zero_(); },
       "the writer packed none"},
      {"a scale that is NaN", [&](PackedModel& m) { tensor(m, "scales")[1][7] = std::nan(""); },
       "got NaN or infinity at [1, 7]"},
      {"a scale that is infinite", [&](PackedModel& m) { tensor(m, "scales")[0][0] = INFINITY; },
       "got NaN or infinity at [0, 0]"},
      {"a scale of 0", [&](PackedModel& m) { tensor(m, "scales")[0][3] = 0; },
       "expected scales above 0, got 1"},
      {"a norm that is NaN",
       [&](PackedModel& m) { m.tensors().at("model.norm.weight")[2] = std::nan(""); },
       "model.norm.weight'] expected finite numbers"},
      {"a zero point off the middle",
       [&](PackedModel& m) { tensor(m, "qzeros")[0][0].bitwise_xor_(1); },
       "expected zero points of 8"},
      {"a group that is not there", [&](PackedModel& m) { tensor(m, "g_idx")[5] = 2; },
       "expected groups in 0 .. 1, got 2 at [input 5]"},
      {"a negative group", [&](PackedModel& m) { tensor(m, "g_idx")[5] = -1; }, "got -1"},
      {"a group of too many inputs", [&](PackedModel& m) { tensor(m, "g_idx")[20] = 0; },
       "expected 16 inputs in each group of the index, got from 15 to 17"},
      {"an order that the settings deny",
       [&](PackedModel& m) { tensor(m, "g_idx") = tensor(m, "g_idx").flip(0).clone(); },
       "desc_act false"},
      {"bits of another folder", [&](PackedModel& m) { m.settings()["bits"] = 8; },
       "Bits or group size of the folder's configuration"},
      {"a group size of another folder", [&](PackedModel& m) { m.settings()["group_size"] = 32; },
       "expected shape [1, 6], got [2, 6]"},
      {"another method", [&](PackedModel& m) { m.settings()["quant_method"] = "awq"; },
       "got 'awq'"},
      {"settings that say it is not packed",
       [&](PackedModel& m) {
         m.settings()["dynamic"] = {{"-:.*up_proj", nlohmann::json::object()}};
       },
       "expected a dense weight"},
      {"a dense linear that the settings call packed",
       [&](PackedModel& m) { m.leave_dense(kLayer + ".weight"); },
       "packed tensors of " + kLayer + ", got dense weights"},
      {"a pattern that is none",
       [&](PackedModel& m) {
         m.settings()["dynamic"] = {{"-:(up_proj", nlohmann::json::object()}};
       },
       "expected a regular expression, got '(up_proj'"},
      {"a label that symmetric zero points deny",
       [&](PackedModel& m) { m.settings()["checkpoint_format"] = "gptq"; },
       "expected zero points as its label gptq says"},
      {"a head that is not packed", [&](PackedModel& m) { m.settings()["lm_head"] = true; },
       "expected lm_head: false, for the folder's head is dense, got true"},
      {"heads that contradict each other",
       [&](PackedModel& m) {
         nlohmann::json other = m.settings();
         m.settings()["lm_head"] = false;
         other["lm_head"] = true;
         write_text(m.packed().path() / "quantize_config.json", other.dump());
       },
       "expected the lm_head of"},
      {"a rule that one file lacks",
       [&](PackedModel& m) {
         nlohmann::json other = m.settings();
         other["dynamic"] = {{".*nothing", {{"bits", 8}}}};
         write_text(m.packed().path() / "quantize_config.json", other.dump());
       },
       "expected the number of rules of"},
      {"rules of other bits",
       [&](PackedModel& m) {
         nlohmann::json other = m.settings();
         other["dynamic"] = {{".*nothing", {{"bits", 8}}}};
         m.settings()["dynamic"] = {{".*nothing", {{"bits", 2}}}};
         write_text(m.packed().path() / "quantize_config.json", other.dump());
       },
       "expected the bits of layers '.*nothing' of"},
      {"two files that contradict each other",
       [&](PackedModel& m) {
         nlohmann::json other = m.settings();
         other["sym"] = false;
         write_text(m.packed().path() / "quantize_config.json", other.dump());
       },
       "expected the sym of"},
  };
  EXPECT_GE(faults.size(), 25u);
  for (const Planted& fault : faults) {
    PackedModel model(Kind::kV2);
    fault.plant(model);
    EXPECT_THAT(validated(model).faults, Contains(HasSubstr(fault.expected))) << fault.what;
  }
}

// A folder comes from anywhere: it must not hang who looks through it, and one pattern is one
// fault.
TEST(PackedValidate, APatternThatBacktracksWithoutEndIsOneFault) {
  for (const Kind kind : {Kind::kV1, Kind::kCompressed}) {
    PackedModel model(kind);
    const std::string evil = "(([a-z_0-9]+)*[.]?)*[A-Z]";
    if (kind == Kind::kCompressed)
      model.settings()["ignore"] = {"re:" + evil};
    else
      model.settings()["dynamic"] = {{"-:" + evil, nlohmann::json::object()}};
    EXPECT_THAT(validated(model).faults,
                ElementsAre(AllOf(HasSubstr("is decided in 100000 steps"), HasSubstr(evil))));
  }
}

// AutoGPTQ's list of what is packed at all: what it leaves out may be dense.
TEST(PackedValidate, LinearsThatTheSettingsDoNotListMayBeDense) {
  PackedModel model(Kind::kV2);
  model.leave_dense(kLayer + ".weight");
  auto& modules = model.settings()["modules_in_block_to_quantize"];
  modules = {{"self_attn.q_proj", "self_attn.k_proj"}, {"mlp.gate_proj"}};
  EXPECT_THAT(validated(model).faults, IsEmpty());
  modules.push_back({"mlp.up_proj"});
  EXPECT_THAT(validated(model).faults, ElementsAre(HasSubstr("got dense weights")));
}

// Nothing that is read is wrong; somebody should know all the same.
TEST(PackedValidate, ShardsThatAreNotReadAndAWrongTotalAreNoted) {
  PackedModel model(Kind::kV2);
  model.packed().write();
  const auto& path = model.packed().path();
  std::filesystem::copy(path / "model.safetensors", path / "model-00009-of-00009.safetensors");
  EXPECT_THAT(validate_packed(path).notes,
              ElementsAre(AllOf(HasSubstr("weight files that are not read"),
                                HasSubstr("model-00009-of-00009.safetensors"))));
  std::filesystem::rename(path / "model.safetensors", path / "model-00001-of-00001.safetensors");
  nlohmann::json index;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : model.tensors()) {
    index["weight_map"][name] = "model-00001-of-00001.safetensors";
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  const auto with_total = [&](int64_t total) {
    index["metadata"]["total_size"] = total;
    write_text(path / "model.safetensors.index.json", index.dump());
    const PackedReport report = validate_packed(path);
    EXPECT_THAT(report.faults, IsEmpty());
    return report.notes;
  };
  EXPECT_THAT(with_total(bytes), ElementsAre(HasSubstr("the index does not name them")));
  std::filesystem::remove(path / "model-00009-of-00009.safetensors");
  EXPECT_THAT(with_total(bytes), IsEmpty());
  EXPECT_THAT(with_total(bytes + 1),
              ElementsAre(HasSubstr("metadata.total_size is " + std::to_string(bytes + 1) +
                                    ", its tensors take " + std::to_string(bytes))));
}

// The damage of a download: shards that are cut off, or not there.
TEST(PackedValidate, DamagedFilesAreFound) {
  PackedModel model(Kind::kV2);
  model.packed().write();
  const auto path = model.packed().path() / "model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  EXPECT_THAT(validate_packed(model.packed().path()).faults,
              ElementsAre(HasSubstr("the file is truncated")));
  std::filesystem::remove(path);
  write_text(model.packed().path() / "model.safetensors.index.json",
             R"({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(validate_packed(model.packed().path()).faults,
              ElementsAre(HasSubstr("got none of: model-00001-of-00002.safetensors")));
}

// Nothing in an asymmetric folder tells a wrong label; the dense model does.
TEST(PackedValidate, ZeroPointsOfTheWrongConventionAreFoundByTheDenseModel) {
  for (const Kind kind : {Kind::kV1, Kind::kV2}) {
    // Zero points that either convention can mean.
    PackedModel model(kind, {.group_size = 16, .least_zero = 1});
    for (auto& [name, part] : model.tensors())
      if (kind == Kind::kV2 && name.ends_with("qzeros")) part.bitwise_and_(0x77777777);
    model.settings()["checkpoint_format"] = kind == Kind::kV1 ? "gptq_v2" : "gptq";
    const auto right = open_model(
        (model.packed().write(), model.packed().path()),
        {.dtype = "float32", .checkpoint_format = kind == Kind::kV1 ? "gptq" : "gptq_v2"});
    for (int64_t block = 0; block < 2; ++block) {
      right->load_block(block);
      for (const Stage& stage : right->stages())
        for (const std::string& linear : stage.linears)
          model.dense().tensors[right->block_name(block) + "." + linear + ".weight"] =
              right->weight(linear).clone();
    }
    EXPECT_THAT(validated(model).faults, IsEmpty());
    model.dense().write();
    const PackedReport report = validated(model, model.dense().path());
    EXPECT_EQ(report.faults.size(), 14u);
    EXPECT_THAT(report.faults,
                Contains(AllOf(HasSubstr(kLayer),
                               HasSubstr(kind == Kind::kV1 ? "stored less 1 (gptq)"
                                                           : "stored as they are (gptq_v2)"))));
  }
}

TEST(PackedValidate, AnotherModelsWeightsAreFoundByTheDenseModel) {
  PackedModel model(Kind::kV2);
  model.dense().tensors.at(kLayer + ".weight").neg_();
  model.dense().write();
  EXPECT_THAT(validated(model, model.dense().path()).faults,
              ElementsAre(AllOf(HasSubstr(kLayer), HasSubstr("another model's, or damaged"))));
}

// A comparison of nothing finds nothing: that is no "no fault".
TEST(PackedValidate, ADenseModelWithoutTheLayersIsAFault) {
  PackedModel model(Kind::kV2);
  EditedModel other("opt_pre_norm");
  other.write();
  EXPECT_THAT(validated(model, other.path()).faults,
              ElementsAre(HasSubstr("nothing was compared")));
}

// Folders without the model's prefix are opened, and so compared.
TEST(PackedValidate, DenseNamesWithoutThePrefixAreCompared) {
  PackedModel model(Kind::kV2);
  std::map<std::string, at::Tensor> bare;
  for (const auto& [name, tensor] : model.dense().tensors)
    bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  model.dense().tensors = bare;
  model.dense().write();
  const PackedReport report = validated(model, model.dense().path());
  EXPECT_THAT(report.faults, IsEmpty());
  EXPECT_THAT(report.notes, IsEmpty());
}

// Rounded to 2 bits with the scale of the largest weight, most weights are 0 or twice what they
// were: further away than zeros, and sound.
TEST(PackedValidate, SoundLayersOfTwoBitsPass) {
  PackedModel model(Kind::kV2, {.bits = 2, .group_size = 16, .symmetric = true});
  for (auto& [name, tensor] : model.dense().tensors)
    if (name.find("_proj.weight") != std::string::npos) tensor.mul_(0.4);
  model.dense().write();
  EXPECT_THAT(validated(model, model.dense().path()).faults, IsEmpty());
}

// Pruned or unused layers are all zeros, and so are their packed ones.
TEST(PackedValidate, LayersOfZerosPass) {
  PackedModel model(Kind::kV2);
  model.tensors().at(kLayer + ".qweight").fill_(static_cast<int32_t>(0x88888888));
  model.dense().tensors.at(kLayer + ".weight").zero_();
  model.dense().write();
  EXPECT_THAT(validated(model, model.dense().path()).faults, IsEmpty());
  model.tensors().at(kLayer + ".qweight")[0][0] = 0;
  EXPECT_THAT(validated(model, model.dense().path()).faults,
              ElementsAre(AllOf(HasSubstr(kLayer), HasSubstr("expected zeros"))));
}

}  // namespace
}  // namespace gptqb::test
