// A packed folder computed from its codes by kernels: as near to exact weights as dequantizing is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/models/packed_model.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Kind = PackedModel::Kind;

const at::Tensor kIds = at::tensor({3, 14, 15, 9, 2, 6, 5, 35}, at::kLong).unsqueeze(0);

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

class EveryPackedKernel : public testing::TestWithParam<Kind> {};

TEST_P(EveryPackedKernel, AreAsNearAsDequantizedWeights) {
  for (const char* dtype : {"float16", "bfloat16"})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const bool act_order : {false, true}) {
        SCOPED_TRACE(std::string(dtype) + ", " + std::to_string(bits) + " bits");
        const PackedModel model(GetParam(), {.bits = bits,
                                             .group_size = bits == 8 ? -1 : 16,
                                             .symmetric = bits == 4,
                                             .act_order = act_order && bits != 8});
        const at::Tensor exact = run_model(*model.open(), kIds);
        const auto dequantized = model.open_with("dense", dtype);
        const auto packed = model.open_with("packed", dtype);
        const double error = distance(run_model(*packed, kIds), exact);
        EXPECT_LE(error, 1.5 * distance(run_model(*dequantized, kIds), exact));
        EXPECT_GT(error, 0);
        const int64_t linears = 7 * packed->block_count();
        EXPECT_THAT(packed->kernels_run(), ElementsAre(Pair("cpu_rows", linears)));
        EXPECT_TRUE(dequantized->kernels_run().empty());
        // Who asks for weights gets those of the codes.
        packed->load_block(0);
        dequantized->load_block(0);
        EXPECT_TRUE(at::equal(packed->weight("mlp.up_proj"), dequantized->weight("mlp.up_proj")));
      }
}

INSTANTIATE_TEST_SUITE_P(, EveryPackedKernel,
                         testing::Values(Kind::kV1, Kind::kV2, Kind::kCompressed));

TEST(PackedKernels, DenseLinearsOfAPackedFolderStayDense) {
  PackedModel model(Kind::kV2);
  model.leave_dense("model.layers.0.self_attn.o_proj.weight");
  model.settings()["dynamic"] = {{"-:.*layers\\.0\\.self_attn\\.o_proj", nlohmann::json::object()}};
  const auto packed = model.open_with("packed", "float16");
  run_model(*packed, kIds);
  EXPECT_THAT(packed->kernels_run(), ElementsAre(Pair("cpu_rows", 7 * packed->block_count() - 1)));
}

// KN-style silent fallbacks: what no kernel multiplies is refused before any work.
TEST(PackedKernels, WhatCannotBeMultipliedIsRefused) {
  const PackedModel model(Kind::kV2);
  EXPECT_THAT(
      message_of([&] { model.open_with("packed", "float32"); }),
      HasSubstr("expected a model of float16 or bfloat16 for packed products, got float32"));
  const PackedModel odd(Kind::kV2, {.group_size = 8});
  EXPECT_THAT(message_of([&] { odd.open_with("packed", "float16"); }),
              AllOf(HasSubstr("self_attn.q_proj.qweight"), HasSubstr("a multiple of 16 columns"),
                    HasSubstr("got 8. Use model.backend: dense")));
  const EditedModel dense("llama_mha");
  dense.write();
  EXPECT_THAT(message_of([&] { open_model(dense.path(), {.backend = "packed"}); }),
              HasSubstr("expected a packed checkpoint for model.backend packed"));
}

}  // namespace
}  // namespace gptqb::test
