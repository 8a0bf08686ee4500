// Folders written by GPTQModel and LLM-Compressor (../shared/models/packed), against the logits
// that its README describes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/gptq_tensors.h"
#include "models/packed_linears.h"
#include "models/packed_validate.h"
#include "tests/models/model_folder.h"
#include "tests/support/shared.h"
#include "tests/support/slow_packer.h"

namespace gptqb::test {
namespace {

std::filesystem::path packed_folder(const std::string& name) {
  return shared_root() / "models/packed" / name;
}

class PackedFolder : public ::testing::TestWithParam<const char*> {};

TEST_P(PackedFolder, LogitsAreThoseOfTheReference) {
  const auto folder = packed_folder(GetParam());
  GPTQB_REQUIRE_PATH(folder / "model.safetensors");
  std::ifstream file(packed_folder("reference.json"));
  const nlohmann::json reference = nlohmann::json::parse(file).at(GetParam());
  const auto model = open_model(folder, {.dtype = "float32"});
  at::Tensor ids = at::empty({1, 256}, at::kLong);
  for (int64_t i = 0; i < 256; ++i) ids[0][i] = (i * 7919) % 508 + 4;
  const at::Tensor logits = run_model(*model, ids)[0].to(at::kDouble);
  const auto head = reference.at("last_logits_head").get<std::vector<double>>();
  for (size_t i = 0; i < head.size(); ++i)
    EXPECT_NEAR(logits[255][static_cast<int64_t>(i)].item<double>(), head[i], 1e-4) << i;
  const auto best = reference.at("argmax_first_16").get<std::vector<int64_t>>();
  for (size_t i = 0; i < best.size(); ++i)
    EXPECT_EQ(logits[static_cast<int64_t>(i)].argmax().item<int64_t>(), best[i]) << i;
  const at::Tensor losses = -at::log_softmax(logits.narrow(0, 0, 255), 1)
                                 .gather(1, ids[0].narrow(0, 1, 255).unsqueeze(1));
  EXPECT_NEAR(losses.mean().item<double>(), reference.at("nll").get<double>(), 1e-5);
  if (std::string(GetParam()) != "dense") {
    EXPECT_GT(model->packed_share().weights, 0);
    EXPECT_THAT(model->notes(), ::testing::IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Written, PackedFolder,
                         ::testing::Values("dense", "g4s32_gptq", "g4s32_gptq_v2", "g2a32_gptq_v2",
                                           "ct_w4s_g32", "ct_w8s_channel"),
                         [](const auto& written) { return std::string(written.param); });

// Folders that older versions of this program wrote (scripts/make_saved_goldens.py): sound, and
// what is written today for their codes and grids is the same, byte for byte. Golden.* has their
// logits.
TEST(SavedFolders, OlderOnesAreSoundAndWrittenToTheSameBytes) {
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder(""))) {
    const auto folder = entry.path();
    if (!folder.filename().string().starts_with("saved_")) continue;
    SCOPED_TRACE(folder.filename().string());
    ++folders;
    const PackedReport report = validate_packed(folder);
    EXPECT_THAT(report.faults, ::testing::IsEmpty());
    // The logits beside it are no weights.
    EXPECT_THAT(report.notes, ::testing::Each(::testing::HasSubstr(": golden.safetensors")));
    const auto config = read_packed_config(folder, ConfigReader(folder / "config.json"));
    ASSERT_TRUE(config && config->labelled);
    const TensorReader tensors(folder);
    const PackedLinears linears(tensors, config, "auto");
    EXPECT_GT(linears.names().size(), 10u);
    for (const std::string& name : linears.names()) {
      const auto [out, in] = linears.sizes_of(name);
      const GptqTensors again = pack_gptq(linears.unpack(name, out, in), config->format, name);
      EXPECT_TRUE(same_tensor(again.qweight, tensors.view(name + ".qweight"))) << name;
      EXPECT_TRUE(same_tensor(again.qzeros, tensors.view(name + ".qzeros"))) << name;
      EXPECT_TRUE(same_tensor(again.scales, tensors.view(name + ".scales"))) << name;
      EXPECT_TRUE(same_tensor(again.g_idx, tensors.view(name + ".g_idx"))) << name;
    }
  }
  EXPECT_GE(folders, 2);
}

}  // namespace
}  // namespace gptqb::test
