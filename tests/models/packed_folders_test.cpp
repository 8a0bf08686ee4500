// Folders written by GPTQModel and LLM-Compressor (../shared/models/packed), against the logits
// that its README describes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/models/model_folder.h"
#include "tests/support/shared.h"

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

}  // namespace
}  // namespace gptqb::test
