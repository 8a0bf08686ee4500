// What the keys of a file become in a cell: typed settings, policies, orders, samples, models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/plan.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

TEST(Plan, TypedSettingsAreThoseOfTheFile) {
  const Plan made = plan(
      R"(calibration: {dataset: wikitext2@train-head, samples: 5, seqlen: 64, seed: 7, heldout: 2, draw: disjoint}
method: {name: gptq, damping: 0.5, block_size: 32, act_order: true, static_groups: true, true_sequential: true, solver: reference, compute: float64, on_failure: rtn, inputs: dense}
quant: {bits: 3, group_size: 32, symmetric: true, grid_search: mse, scale_dtype: float32, grid_norm: 2, grid_steps: 50, grid_shrink: 0.5}
compat: {group_grid: reference, one_sided: reference, rtn_groups: reference, dead_columns: reference, rtn_dtype: model, loss_dtype: model, forward: reference}
evaluate:
  - perplexity: {datasets: [wikitext2, {name: own, source: "jsonl:/x.jsonl", join: " ", field: body}], seqlen: 128, max_windows: 3, batch: 2, bos: every_window}
)");
  ASSERT_EQ(made.cells.size(), 1u);
  EXPECT_EQ(made.cells[0].skip_reason, "");
  const Cell& cell = made.cells[0].cell;
  EXPECT_EQ(cell.calibration().datasets.at(0).dataset.label(), "wikitext2@train-head");
  EXPECT_EQ(cell.calibration().samples, 5);
  EXPECT_EQ(cell.calibration().seqlen, 64);
  EXPECT_EQ(cell.calibration().seed, 7);
  EXPECT_EQ(cell.calibration().heldout, 2);
  EXPECT_EQ(cell.calibration().draw, Draw::kDisjoint);
  MethodConfig method;
  method.damping = 0.5;
  method.block_size = 32;
  method.act_order = method.static_groups = method.true_sequential = true;
  method.solver = SolverKind::kReference;
  method.compute = ComputeDtype::kFloat64;
  method.on_failure = OnFailure::kRtn;
  method.inputs = StatsInputs::kDense;
  EXPECT_EQ(cell.method(), method);
  QuantConfig quant;
  quant.bits = 3;
  quant.group_size = 32;
  quant.symmetric = true;
  quant.grid_search = GridSearch::kMse;
  quant.scale_dtype = ScaleDtype::kFloat32;
  quant.grid_norm = 2;
  quant.grid_steps = 50;
  quant.grid_shrink = 0.5;
  EXPECT_EQ(cell.quant(), quant);
  EXPECT_EQ(cell.compat(), (CompatPolicy{true, true, true, true, true, true, true}));
  ASSERT_EQ(cell.evaluators().size(), 1u);
  const EvaluatorSpec& perplexity = cell.evaluators()[0];
  EXPECT_EQ(perplexity.name, "perplexity");
  EXPECT_EQ(perplexity.seqlen, 128);
  EXPECT_EQ(perplexity.max_windows, 3);
  EXPECT_EQ(perplexity.batch, 2);
  EXPECT_EQ(perplexity.bos, BosPolicy::kEveryWindow);
  ASSERT_EQ(perplexity.datasets.size(), 2u);
  EXPECT_EQ(perplexity.datasets[1].name, "own");
  EXPECT_EQ(perplexity.datasets[1].source, "jsonl:/x.jsonl");
  EXPECT_EQ(perplexity.datasets[1].join, " ");
  EXPECT_EQ(perplexity.datasets[1].field, "body");
}

TEST(Plan, CompatReferenceSetsAllAndNearerKeysWin) {
  EXPECT_EQ(plan("method: {name: gptq}\ncompat: reference\n").cells[0].cell.compat(),
            (CompatPolicy{true, true, true, true, true, true, true}));
  EXPECT_EQ(plan("method: {name: gptq}\ncompat: {base: reference, rtn_groups: honour, loss_dtype: "
                 "float32}\n")
                .cells[0]
                .cell.compat(),
            (CompatPolicy{true, true, false, true, true, false, true}));
  EXPECT_EQ(plan("method: {name: gptq}\nsweep: {compat: [default, reference]}\n").cells.size(), 2u);
  // Spelled out or in short, it is the same cell.
  EXPECT_EQ(plan("method: {name: rtn}\ncompat: reference\n").cells[0].cell.id(),
            plan("method: {name: rtn}\ncompat: {one_sided: reference, rtn_groups: reference, "
                 "rtn_dtype: model, loss_dtype: model, forward: reference}\n")
                .cells[0]
                .cell.id());
}

// It decides the numbers of every cell of a model that it matters to, the dense one included; at
// its default it is left out, so that cells keep their id.
TEST(Plan, RoundingInTheForwardPassBelongsToModelsThatHaveAChoice) {
  const auto forward = [](const std::string& model, const std::string& method) {
    const std::string text = "name: p\nmodel: {" + model + "}\nmethod: {name: " + method + "}\n";
    const auto made =
        make_plan(parse_experiments(text + "compat: reference\n", "p.yaml").at(0), build());
    const auto ours = make_plan(parse_experiments(text, "p.yaml").at(0), build());
    EXPECT_EQ(ours.cells[0].cell.setting("compat.forward"), "");
    EXPECT_FALSE(ours.cells[0].cell.compat().reference_forward);
    EXPECT_EQ(made.cells[0].cell.compat().reference_forward,
              made.cells[0].cell.setting("compat.forward") == "reference");
    return made.cells[0].cell.setting("compat.forward");
  };
  EXPECT_EQ(forward("path: /m", "none"), "reference") << "it may be a BLOOM";
  EXPECT_EQ(forward("path: /m", "rtn"), "reference");
  EXPECT_EQ(forward("synthetic: {like: bloom-7b1}", "gptq"), "reference");
  EXPECT_EQ(
      forward("synthetic: {architecture: bloom, hidden_size: 64, heads: 2, layers: 1}", "none"),
      "reference");
  EXPECT_EQ(forward("synthetic: {like: llama-7b}", "gptq"), "");
  EXPECT_EQ(forward("synthetic: {like: opt-13b}", "none"), "");
}

TEST(Plan, OrderOfColumnsReachesTheMethod) {
  const auto cell = [](const std::string& method) {
    return plan("method: {name: " + method + "}\n").cells.at(0).cell;
  };
  EXPECT_EQ(cell("gptq, order: reverse").method().order, ColumnOrder::kReverse);
  const Cell random = cell("gptq, order: random:17");
  EXPECT_EQ(random.method().order, ColumnOrder::kRandom);
  EXPECT_EQ(random.method().order_seed, 17);
  EXPECT_NE(random.id(), cell("gptq, order: random:18").id());
  EXPECT_THAT(random.summary(), HasSubstr("order random:17"));
  // A default that is written down is still the same cell; obq's is another one.
  EXPECT_EQ(cell("gptq, order: natural").id(), cell("gptq").id());
  EXPECT_EQ(cell("rtn, order: reverse").id(), cell("rtn").id());
  EXPECT_EQ(cell("obq, order: greedy").id(), cell("obq").id());
  EXPECT_NE(cell("obq, order: natural").id(), cell("obq").id());
  EXPECT_EQ(cell("obq, order: natural").method().order, ColumnOrder::kNatural);
  // Only cells that are left in must make sense.
  const Plan made = plan(
      "sweep: {method.name: [gptq, obq], method.order: [reverse, greedy]}\n"
      "exclude: [{method.name: gptq, method.order: greedy}]\n");
  EXPECT_EQ(made.cells.size(), 3u);
}

// Sampling: RTN is asked for the same rows and layers; at their defaults the keys are in no
// identity.
TEST(Plan, SampledRowsAndLayersReachTheMethod) {
  const Plan made = plan(
      "method: {rows: 8, layers: \"*.q_proj\"}\nsweep: {method.name: [none, rtn, gptq, obq]}\n");
  EXPECT_EQ(made.cells[0].cell.setting("method.rows"), "");
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(made.cells[i].cell.method().rows, 8);
    EXPECT_EQ(made.cells[i].cell.method().layers, "*.q_proj");
    EXPECT_THAT(made.cells[i].cell.summary(), HasSubstr(", 8 rows a linear, layers *.q_proj"));
  }
  const Plan all = plan("method: {name: obq, rows: all, layers: \"*\"}\n");
  EXPECT_EQ(all.cells[0].cell.id(), plan("method: {name: obq}\n").cells[0].cell.id());
  EXPECT_EQ(all.cells[0].cell.setting("method.rows"), "");
  // What changes no code of OBQ makes no other cell.
  EXPECT_EQ(plan("method: {name: obq, block_size: 64, static_groups: true}\n").cells[0].cell.id(),
            all.cells[0].cell.id());
  EXPECT_TRUE(
      plan("method: {name: obq, outlier_first: true}\n").cells[0].cell.method().outlier_first);
}

TEST(Cell, HeadAndEmbeddingShareAllButTheirBits) {
  const std::string start = "method: {name: gptq}\nquant: {bits: 3, group_size: 64";
  const Cell cell = plan(start + ", head: 4, embedding: 8}\n").cells[0].cell;
  ASSERT_TRUE(cell.head() && cell.embedding());
  EXPECT_EQ(cell.head()->bits, 4);
  EXPECT_EQ(cell.head()->group_size, 64);
  EXPECT_EQ(cell.embedding()->bits, 8);
  EXPECT_EQ(cell.quant().bits, 3);
  EXPECT_EQ(cell.summary(), "gptq 3 bits, groups of 64, head 4 bits, embedding 8 bits");
  EXPECT_EQ(Cell::from_json(cell.canonical()).id(), cell.id());
  // A cell that says none is the cell that says nothing.
  const Cell none = plan(start + ", head: none, embedding: none}\n").cells[0].cell;
  EXPECT_FALSE(none.head() || none.embedding());
  EXPECT_EQ(none.id(), plan(start + "}\n").cells[0].cell.id());
  EXPECT_NE(none.id(), cell.id());
}

TEST(Cell, DivergenceHasWindowsOfItsOwn) {
  const PlanOptions options{.methods = {"none", "rtn"}, .evaluators = {"perplexity", "divergence"}};
  const std::string text =
      "method: {name: rtn}\n"
      "evaluate:\n  - divergence: {datasets: [c4, ptb], seqlen: 256, max_windows: 5}\n"
      "  - perplexity: {datasets: [wikitext2]}\n";
  const Cell cell = plan(text, {}, options).cells[0].cell;
  EXPECT_EQ(plan(text, {}, options).cells[0].skip_reason, "");
  ASSERT_EQ(cell.evaluators().size(), 2u);
  EXPECT_EQ(cell.evaluators()[0].name, "perplexity");
  EXPECT_EQ(cell.evaluators()[0].seqlen, 2048);
  EXPECT_EQ(cell.evaluators()[1].name, "divergence");
  EXPECT_EQ(cell.evaluators()[1].datasets.size(), 2u);
  EXPECT_EQ(cell.evaluators()[1].datasets[1].name, "ptb");
  EXPECT_EQ(cell.evaluators()[1].seqlen, 256);
  EXPECT_EQ(cell.evaluators()[1].max_windows, 5);
  const auto gate = [&](const std::string& metric) {
    return message_of([&] {
      plan(text + "expect: [{metric: " + metric + ", at_most: 1, source: x}]\n", {}, options);
    });
  };
  EXPECT_EQ(gate("divergence.ptb.top1_agreement"), "nothing was thrown");
  EXPECT_THAT(gate("divergence.c4.meankl"), HasSubstr("Did you mean 'divergence.c4.mean_kl'?"));
}

TEST(Plan, SyntheticModelsArePlannedAndMustBeNamed) {
  const auto model_of = [](const std::string& model) {
    return parse_experiments("name: s\nmodel: {synthetic: " + model + "}\nmethod: {name: rtn}\n",
                             "s");
  };
  const auto made = make_plan(model_of("{like: llama-7b, layers: 2, seed: 3}").at(0), build());
  EXPECT_EQ(made.cells[0].skip_reason, "");
  const SyntheticModel& model = made.cells[0].cell.model().synthetic;
  EXPECT_EQ(model.like, "llama-7b");
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.seed, 3);
  EXPECT_THAT(message_of([&] { model_of("{seed: 3}"); }),
              HasSubstr("expected a `model.path` for every cell"));
}

TEST(Plan, LimitsAreGibibytes) {
  const Plan limited = plan("method: {name: gptq}\nlimits: {device_memory: 8, host_memory: 0.5}\n");
  EXPECT_EQ(limited.limits.device, int64_t{8} << 30);
  EXPECT_EQ(limited.limits.host, int64_t{1} << 29);
  EXPECT_EQ(limited.cells[0].cell.id(), plan("method: {name: gptq}\n").cells[0].cell.id())
      << "they change how a cell runs, not what it is";
  EXPECT_FALSE(plan("method: {name: gptq}\nlimits: {host_memory: all}\n").limits.host);
}

}  // namespace
}  // namespace gptqb::test
