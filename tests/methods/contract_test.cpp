// What every method of methods.def keeps, on layers that broke others: written once, asked of all.
// A newcomer is tested as soon as it is listed; one that cannot do everything gets a line in
// abilities_of().
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/grid.h"
#include "tests/support/layers.h"
#include "tests/support/message.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a method can be asked for.
struct Abilities {
  bool any_grid = true;        // else 8 bits a row from -absmax to absmax (LLM.int8())
  bool needs_command = false;  // runs a program of the user's
};

Abilities abilities_of(const std::string& method) {
  if (method == "llm_int8") return {.any_grid = false};
  if (method == "external") return {.needs_command = true};
  return {};
}

// The weights that stand in for the layer's, whatever form the answer has.
at::Tensor weights_of(const LayerResult& result) {
  return result.replacement.effective_weights(at::kFloat);
}

// Settings a layer is quantized with.
struct Variant {
  std::string name;
  QuantConfig quant;
  MethodConfig method;
  CompatPolicy compat;
};

std::vector<Variant> all_variants() {
  const QuantConfig groups{.bits = 4, .group_size = 16, .scale_dtype = ScaleDtype::kFloat32};
  const auto with = [&](auto change) {
    Variant variant{.name = "", .quant = groups, .method = {.block_size = 8}, .compat = {}};
    change(variant);
    return variant;
  };
  const auto rows = [&](int64_t bits) {
    return with([&](Variant& v) {
      v.name = std::to_string(bits) + " bits, rows";
      v.quant.bits = bits;
      v.quant.group_size = -1;
    });
  };
  return {
      rows(2),
      rows(3),
      rows(4),
      rows(8),
      with([](Variant& v) { v.name = "groups"; }),
      with([](Variant& v) {
        v.name = "symmetric groups, float16 scales";
        v.quant.symmetric = true;
        v.quant.scale_dtype = ScaleDtype::kFloat16;
      }),
      with([](Variant& v) {
        v.name = "ternary groups";
        v.quant.bits = QuantConfig::kTernary;
      }),
      with([](Variant& v) {
        v.name = "ternary rows, act-order";
        v.quant.bits = QuantConfig::kTernary;
        v.quant.group_size = -1;
        v.method.act_order = true;
      }),
      with([](Variant& v) {
        v.name = "grid search";
        v.quant.bits = 3;
        v.quant.grid_search = GridSearch::kMse;
      }),
      with([](Variant& v) {
        v.name = "act-order";
        v.method.act_order = true;
      }),
      with([](Variant& v) {
        v.name = "act-order, static groups";
        v.method.act_order = v.method.static_groups = true;
      }),
      with([](Variant& v) {
        v.name = "from the right, float64";
        v.method.order = ColumnOrder::kReverse;
        v.method.compute = ComputeDtype::kFloat64;
      }),
      with([](Variant& v) {
        v.name = "as published";
        v.method.solver = SolverKind::kReference;
        v.compat.reference_group_grid = true;
        v.compat.reference_one_sided = true;
        v.compat.reference_dead_columns = true;
      }),
      with([](Variant& v) {
        v.name = "inverse updates, blocks of 5";
        v.method.block_size = 5;
        v.method.solver = SolverKind::kInverseUpdates;
      }),
      with([](Variant& v) {
        v.name = "as published, rows";
        v.quant.group_size = -1;
        v.quant.symmetric = true;
        v.method.solver = SolverKind::kReference;
        v.compat.reference_one_sided = true;
        v.compat.reference_dead_columns = true;
      }),
  };
}

// A layer, and what its result must be like beyond being valid.
struct Layer {
  std::string name;
  at::Tensor weights;  // f32 [out, in]
  at::Tensor inputs;   // f32 [sequences, tokens, in]
  void (*check)(const Variant&, const at::Tensor& weights, const LayerResult&) = nullptr;
};

void expect_zero_rows(const Variant&, const at::Tensor&, const LayerResult& result) {
  const auto got = weights_of(result);
  for (const int64_t row : {1, 3}) EXPECT_EQ(got[row].abs().max().item<float>(), 0) << row;
  EXPECT_GT(got[0].abs().max().item<float>(), 0);
}

// A constant is the end of its own range. (Symmetric grids end half a step short of it on one
// side.)
void expect_constant_rows(const Variant& variant, const at::Tensor& weights,
                          const LayerResult& result) {
  if (variant.quant.symmetric) return;
  EXPECT_TRUE(at::allclose(weights_of(result), weights, 1e-5, 0));
}

// With one column there is nothing that could make up for an error.
void expect_rounding(const Variant& variant, const at::Tensor& weights, const LayerResult& result) {
  const auto rtn =
      round_to_nearest(weights, {variant.quant, variant.compat.reference_one_sided}, "layer");
  EXPECT_TRUE(at::allclose(weights_of(result), rtn.dequantize(at::kFloat), 1e-5, 0));
}

// Nothing to learn from: rounding, on record, and never an empty layer (fault QN-09).
void expect_marked_rounding(const Variant& variant, const at::Tensor& weights,
                            const LayerResult& result) {
  expect_rounding(variant, weights, result);
  EXPECT_GT(weights_of(result).abs().sum().item<float>(), 1);
  EXPECT_EQ(result.health.dead_columns, weights.size(1));
  EXPECT_FALSE(result.health.relative_error.has_value());
}

void expect_dead_columns_on_record(const Variant&, const at::Tensor&, const LayerResult& result) {
  EXPECT_EQ(result.health.dead_columns, 6);  // of 40: every seventh from the fourth
  EXPECT_LT(*result.health.relative_error, 1);
}

std::vector<Layer> all_layers() {
  const auto weights = [](int64_t rows, int64_t columns) {
    return (normal_matrix(rows, columns, 41) * 0.1).to(at::kFloat);
  };
  const auto inputs = [](int64_t columns, Inputs kind = Inputs::kCorrelated) {
    return calibration_inputs(kind, columns, 42);
  };
  auto zero_rows = weights(5, 40);
  zero_rows[1].zero_();
  zero_rows[3].zero_();
  const auto constants = at::tensor({0.3f, -0.7f, 1.f}).unsqueeze(1).expand({3, 40}).contiguous();
  return {
      {"ordinary", weights(9, 48), inputs(48)},
      {"ill-conditioned", weights(9, 48), inputs(48, Inputs::kIllConditioned)},
      {"zero rows", zero_rows, inputs(40), expect_zero_rows},
      {"constant rows", constants, inputs(40), expect_constant_rows},
      {"one column", weights(5, 1), inputs(1), expect_rounding},
      {"one row", weights(1, 40), inputs(40)},
      {"columns that fill neither group nor block", weights(6, 37), inputs(37)},
      {"fewer columns than a group", weights(6, 10), inputs(10)},
      {"dead columns", weights(6, 40), inputs(40, Inputs::kDead), expect_dead_columns_on_record},
      {"no input but 0", weights(6, 24), at::zeros({2, 9, 24}), expect_marked_rounding},
  };
}

LinearProblem problem_of(const Layer& layer, const CalibrationStats& stats,
                         const Variant& variant) {
  LinearProblem problem;
  problem.layer = "model.layers.3.mlp.down_proj";
  problem.weight = layer.weights;
  problem.stats = &stats;
  problem.quant = variant.quant;
  problem.method = variant.method;
  problem.compat = variant.compat;
  return problem;
}

void expect_same_bytes(const LayerResult& first, const LayerResult& second) {
  const auto parts = first.replacement.tensors();
  const auto others = second.replacement.tensors();
  ASSERT_EQ(parts.size(), others.size());
  for (const auto& [name, tensor] : parts) EXPECT_TRUE(at::equal(tensor, others.at(name))) << name;
}

void expect_well_formed(const LayerResult& result, const LinearProblem& problem,
                        const std::string& method) {
  result.replacement.validate(method);
  EXPECT_EQ(weights_of(result).sizes(), problem.weight.sizes());
  if (const auto* codes = result.replacement.codes()) {
    EXPECT_EQ(codes->bits, problem.quant.bits);
    EXPECT_EQ(codes->group_size, problem.quant.group_size);
    EXPECT_EQ(codes->groups(), problem.quant.groups(problem.weight.size(1)));
  }
  EXPECT_TRUE(weights_of(result).isfinite().all().item<bool>());
  EXPECT_EQ(result.health.layer, problem.layer);
  EXPECT_EQ(result.health.method, method);
  EXPECT_EQ(result.health.bits, problem.quant.bits);
  EXPECT_EQ(result.health.tokens, problem.stats->tokens());
  EXPECT_EQ(result.health.sequences, problem.stats->sequences());
  if (result.health.relative_error) {
    EXPECT_TRUE(std::isfinite(*result.health.relative_error));
    EXPECT_TRUE(result.health.relative_error_rtn.has_value());
  }
}

// Calls `test(method, quantizer)` for each method that quantizes without a program of the user's.
template <class Test>
void for_each_method(Test test) {
  for (const auto& entry : quantizers().entries()) {
    const auto quantizer = entry.make();
    if (!quantizer) continue;                              // the dense model
    if (abilities_of(entry.name).needs_command) continue;  // MethodContract.ProgramsAreAskedFor
    SCOPED_TRACE(entry.name);
    test(entry.name, *quantizer);
  }
}

TEST(MethodContract, EveryMethodOnEveryLayer) {
  const auto layers = all_layers();
  std::vector<CalibrationStats> stats;
  for (const auto& layer : layers) stats.push_back(stats_of(layer.inputs));
  for_each_method([&](const std::string& method, const Quantizer& quantizer) {
    for (const auto& variant : all_variants()) {
      if (!abilities_of(method).any_grid && variant.name != "8 bits, rows") continue;
      for (size_t i = 0; i < layers.size(); ++i) {
        SCOPED_TRACE(layers[i].name + ", " + variant.name);
        const auto problem = problem_of(layers[i], stats[i], variant);
        const auto result = quantizer.quantize(problem);
        expect_well_formed(result, problem, method);
        if (layers[i].check && abilities_of(method).any_grid)
          layers[i].check(variant, layers[i].weights, result);
        if (layers[i].name == "no input but 0" && quantizer.needs_stats()) {
          EXPECT_THAT(result.health.status, StartsWith("rtn: "));
        } else {
          EXPECT_EQ(result.health.status, "ok");
        }
      }
    }
  });
}

TEST(MethodContract, SameBytesForTheSameThreads) {
  const Layer layer{"", (normal_matrix(130, 96, 43) * 0.1).to(at::kFloat),
                    calibration_inputs(Inputs::kCorrelated, 96, 44)};
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    const auto stats = stats_of(layer.inputs);
    const auto again = stats_of(layer.inputs);
    for_each_method([&](const std::string& method, const Quantizer& quantizer) {
      for (const auto& variant : all_variants()) {
        if (!abilities_of(method).any_grid && variant.name != "8 bits, rows") continue;
        SCOPED_TRACE(variant.name);
        expect_same_bytes(quantizer.quantize(problem_of(layer, stats, variant)),
                          quantizer.quantize(problem_of(layer, again, variant)));
      }
    });
  }
  at::set_num_threads(before);
}

// Codes with both ends of the range in every group, whether groups follow the columns or a sweep
// that takes the even columns first; every row has its own zero point.
at::Tensor codes_on_the_grid(int64_t rows, int64_t columns, int64_t max_code) {
  auto codes = at::empty({rows, columns});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      codes[r][c] = c % 7 == 3         ? static_cast<double>((r + c) % (max_code + 1))
                    : (c / 2) % 2 == 0 ? 0.0
                                       : static_cast<double>(max_code);
  return codes;
}

// Nothing to gain and nothing to make up for. A symmetric grid is left out: the weight that sets it
// lies half a step beyond its codes, so no weights are on the grid that they would be given
// (fault GG-13).
TEST(MethodContract, WeightsOnTheGridAreReturnedUnchanged) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 32;
  auto sizes = at::ones({kColumns});
  for (int64_t c = 0; c < kColumns; c += 2) sizes[c] = 4;  // act-order takes the even ones first
  const auto inputs = (normal_matrix(256, kColumns, 45).to(at::kFloat) * sizes).unsqueeze(0);
  const auto stats = stats_of(inputs);
  for_each_method([&](const std::string& method, const Quantizer& quantizer) {
    for (const auto& variant : all_variants()) {
      if (variant.quant.symmetric || !abilities_of(method).any_grid) continue;
      SCOPED_TRACE(variant.name);
      const int64_t max_code = variant.quant.max_code();
      const auto codes = codes_on_the_grid(kRows, kColumns, max_code);
      at::Tensor weights;
      if (variant.quant.ternary()) {
        weights = at::where(codes == 2, 0.75, at::where(codes == 0, -0.25, 0.0)).to(at::kFloat);
      } else {
        const auto zeros = at::arange(kRows, at::kFloat).mul(max_code / (kRows - 1.)).round();
        weights = (codes - zeros.unsqueeze(1)) / 32;
      }
      const auto result = quantizer.quantize(problem_of({"", weights, inputs}, stats, variant));
      EXPECT_TRUE(at::equal(weights_of(result), weights));
      EXPECT_EQ(*result.health.relative_error, 0);
      EXPECT_EQ(result.health.clipped, 0);
    }
  });
  // LLM.int8()'s grid: integers up to 127 in each row.
  if (quantizers().has("llm_int8")) {
    auto integers = at::arange(kRows * kColumns, at::kFloat).remainder(255).sub(127);
    integers = integers.reshape({kRows, kColumns});
    integers.select(1, 5).fill_(-127);
    const auto weights = integers / 128;
    for (const auto& variant : all_variants()) {
      if (variant.name != "8 bits, rows") continue;
      const auto problem = problem_of({"", weights, inputs}, stats, variant);
      EXPECT_TRUE(at::equal(weights_of(quantize_with("llm_int8", problem)), weights));
    }
  }
}

// A method that runs a program says so if it is given none.
TEST(MethodContract, ProgramsAreAskedFor) {
  const auto stats = stats_of(at::eye(8).unsqueeze(0));
  for (const auto& entry : quantizers().entries()) {
    if (!abilities_of(entry.name).needs_command) continue;
    EXPECT_THAT(
        message_of([&] { entry.make()->quantize(layer_problem(catalogue_weights(), &stats)); }),
        HasSubstr("method.command"));
  }
}

}  // namespace
}  // namespace gptqb::test
