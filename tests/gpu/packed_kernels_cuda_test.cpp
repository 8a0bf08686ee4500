// A packed folder as a model on a GPU: products by kernels for tensor cores, as near to exact
// weights as dequantizing is, the same bits twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/models/packed_model.h"

namespace gptqb::test {
namespace {

using Kind = PackedModel::Kind;

constexpr const char* kDevice = "cuda:0";

// Of ids with which no activation of the tiny models leaves float16.
at::Tensor ids(int64_t tokens, int64_t prompt) {
  constexpr std::array<int64_t, 8> kIds = {3, 14, 15, 9, 2, 6, 5, 35};
  std::vector<int64_t> row;
  for (int64_t i = 0; i < tokens; ++i)
    row.push_back(kIds[(i * (2 * prompt + 1) + prompt + i / 8) % 8]);
  return at::tensor(row, at::kLong).unsqueeze(0);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.cpu().to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

class PackedKernelsCuda : public testing::TestWithParam<std::tuple<Kind, int64_t>> {};

constexpr int64_t kPrompts = 3;

// 1 and 8 tokens are those of decoding; 60 is no multiple of a tile.
TEST_P(PackedKernelsCuda, AreAsNearAsDequantizedWeights) {
  const auto [kind, bits] = GetParam();
  for (const char* dtype : {"float16", "bfloat16"}) {
    // Random codes of 8 bits make activations that float16 does not hold.
    if (bits == 8 && dtype == std::string("float16")) continue;
    for (const bool act_order : {false, true}) {
      const PackedModel model(kind, {.bits = bits,
                                     .group_size = bits == 8 ? -1 : 16,
                                     .symmetric = bits == 4,
                                     .act_order = act_order && bits != 8});
      const auto exact = model.open();
      const auto dequantized = model.open_with("dense", dtype, at::Device(kDevice));
      const auto packed = model.open_with("packed", dtype, at::Device(kDevice));
      for (const int64_t tokens : {1, 8, 60}) {
        SCOPED_TRACE(std::string(dtype) + ", tokens " + std::to_string(tokens));
        // One prompt says little: a rounding that falls the other way early on moves all after it.
        double error = 0, dense_error = 0;
        std::string each;
        for (int64_t prompt = 0; prompt < kPrompts; ++prompt) {
          const at::Tensor tokens_of = ids(tokens, prompt);
          const at::Tensor wanted = run_model(*exact, tokens_of);
          const at::Tensor got = run_model(*packed, tokens_of);
          EXPECT_TRUE(at::equal(run_model(*packed, tokens_of), got));
          const double packed_part = distance(got, wanted);
          const double dense_part = distance(run_model(*dequantized, tokens_of), wanted);
          error += packed_part;
          dense_error += dense_part;
          each += " " + std::to_string(packed_part) + "/" + std::to_string(dense_part);
        }
        EXPECT_LE(error, 1.5 * dense_error) << each;
      }
      EXPECT_FALSE(packed->kernels_run().empty());
      for (const auto& [kernel, count] : packed->kernels_run())
        EXPECT_THAT(kernel, testing::AnyOf("cuda_strips", "cuda_tiles", "cuda_wide")) << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, PackedKernelsCuda,
                         testing::Combine(testing::Values(Kind::kV1, Kind::kV2, Kind::kCompressed),
                                          testing::Values(2, 3, 4, 8)));

}  // namespace
}  // namespace gptqb::test
