// AWQ's `reference` protocol against llm-awq itself: the scales that move, and the steps and codes
// that clipping leaves, on a tiny random model of each family. The numbers are those that
// mit-han-lab/llm-awq, commit d6e797a42b9ef7778de8ee2352116e0f48a78d61, found on the CPU with torch
// 2.11.0; scripts/make_awq_goldens.py runs it.
#include <gtest/gtest.h>

#include "methods/quantize_model.h"
#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

// Keeps what a run would keep for resuming: scales that moved, and codes.
class Kept : public ResumeStore {
 public:
  std::optional<FinishedBlock> load(int64_t) override { return std::nullopt; }
  void save(int64_t block, const FinishedBlock& finished) override { blocks[block] = finished; }
  std::map<int64_t, FinishedBlock> blocks;
};

struct Case {
  std::string variant;
  std::string dtype;
};

class AwqGolden : public ::testing::TestWithParam<Case> {
 protected:
  static std::filesystem::path folder() {
    return std::filesystem::path(GPTQB_SOURCE_DIR) / "tests/models/golden_awq" / GetParam().variant;
  }

  AwqGolden() : golden_(folder() / "golden.safetensors") {}

  std::map<int64_t, FinishedBlock> quantize() const {
    const auto model = open_model(folder(), {GetParam().dtype, at::kCPU});
    Kept kept;
    QuantizeOptions options;
    options.method.name = "awq";
    options.method.awq_reference = true;
    options.method.inputs = StatsInputs::kDense;
    options.settings = [](const std::string&) {
      return LayerSettings{
          .method = "awq",
          .quant = {.bits = 3, .group_size = 32, .scale_dtype = ScaleDtype::kFloat32}};
    };
    // llm-awq runs all sequences at once.
    options.sequences_per_chunk = golden_.view("ids").size(0);
    options.resume = &kept;
    quantize_model(*model, golden_.view("ids"), {}, options);
    return kept.blocks;
  }

  // This program names BLOOM's activation for what it is, llm-awq after the module of transformers.
  at::Tensor golden(int64_t block, const std::string& name) const {
    const std::string theirs = name == "mlp.gelu.scale" ? "mlp.gelu_impl.scale" : name;
    return golden_.view(GetParam().dtype + "." + std::to_string(block) + "." + theirs);
  }

  size_t golden_scales() const {
    size_t count = 0;
    for (const auto& [name, info] : golden_.tensors())
      count += name.starts_with(GetParam().dtype) && name.ends_with(".scale");
    return count;
  }

  SafetensorsFile golden_;
};

// Where the goldens were made all numbers are equal to the last bit. Another CPU may sum in another
// order: a scale then moves by a unit in the last place, and with it the zero points of groups that
// are clipped on both sides, whose -low / scale is half a code (of OPT's steps 1.2 % on an Intel
// Xeon).
TEST_P(AwqGolden, FindsTheScalesStepsAndCodesOfLlmAwq) {
  const double last_place = GetParam().dtype == "float16" ? 1e-3 : 1e-6;
  const auto far_off = [&](const at::Tensor& ours, const at::Tensor& theirs) {
    return ((ours - theirs) / theirs).abs() > last_place;
  };
  size_t moved = 0;
  double steps = 0, steps_off = 0, codes = 0, codes_off = 0;
  for (const auto& [block, finished] : quantize()) {
    for (const auto& [producer, scale] : finished.divided) {
      ++moved;
      // Every scale is a power of the mean input: the same numbers are the same exponent.
      EXPECT_EQ(far_off(scale, golden(block, producer + ".scale")).sum().item<int64_t>(), 0)
          << producer << " of block " << block;
    }
    for (const auto& [linear, kept] : finished.linears) {
      const LinearReplacement replacement = kept.replacement();
      const QuantizedLinear& ours = *replacement.codes();
      const auto off = far_off(ours.scales, golden(block, linear + ".steps"));
      const auto other = ours.codes != golden(block, linear + ".codes");
      steps += static_cast<double>(off.numel());
      steps_off += off.sum().item<double>();
      codes += static_cast<double>(other.numel());
      codes_off += other.sum().item<double>();
    }
  }
  EXPECT_EQ(moved, golden_scales());
  ASSERT_GT(codes, 20000);
  EXPECT_LE(steps_off, 0.03 * steps);
  EXPECT_LE(codes_off, 0.03 * codes);
}

INSTANTIATE_TEST_SUITE_P(
    Models, AwqGolden,
    ::testing::Values(Case{"llama_mha", "float32"}, Case{"llama_mha", "float16"},
                      Case{"llama_wide_heads", "float32"}, Case{"opt", "float32"},
                      Case{"opt", "float16"}, Case{"bloom", "float32"}),
    [](const auto& test) { return test.param.variant + "_" + test.param.dtype; });

}  // namespace
}  // namespace gptqb::test
