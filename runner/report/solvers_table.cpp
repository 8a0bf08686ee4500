#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

constexpr const char* kSolver = "method.solver";
constexpr const char* kPrecision = "method.precision";
constexpr const char* kPublished = "reference";

// On a GPU the published solver takes a block of columns in one kernel, unless it is asked not to.
bool in_one_kernel_a_block(const Record& record) {
  return record.setting(kSolver) == kPublished && record.environment.device.starts_with("cuda") &&
         record.setting("method.step_by_step") != "true";
}

std::string solver_name(const Record& record) {
  return record.setting(kSolver) + (in_one_kernel_a_block(record) ? ", a kernel a block" : "");
}

bool has_times(const Record& record) {
  return record.status == CellStatus::kOk && !record.setting(kSolver).empty() &&
         std::any_of(record.layers.begin(), record.layers.end(),
                     [](const LayerHealth& layer) { return layer.in_features > 0; });
}

// Of an even number the lower one in the middle: the other may hold what starting a library takes.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

// Of all layers of one shape.
struct Times {
  size_t layers = 0;
  double hessian = 0;
  double factor = 0;
  double solve = 0;
};

using Shape = std::pair<int64_t, int64_t>;  // rows, columns

// H and its factor are made once for all linears that read the same input, and depend on its width
// alone.
std::map<Shape, Times> times_of(const Record& record) {
  std::map<int64_t, std::vector<double>> hessians, factors;
  std::map<Shape, std::vector<double>> solves;
  int64_t shared_before = 0;
  for (const LayerHealth& layer : record.layers) {
    if (layer.in_features == 0) continue;
    solves[{layer.out_features, layer.in_features}].push_back(layer.seconds_solve);
    if (shared_before == 0) {
      const auto sharing = static_cast<double>(layer.hessian_shared_by);
      hessians[layer.in_features].push_back(layer.seconds_hessian * sharing);
      factors[layer.in_features].push_back(layer.seconds_factor);
      shared_before = layer.hessian_shared_by;
    }
    shared_before = std::max<int64_t>(shared_before - 1, 0);
  }
  std::map<Shape, Times> times;
  for (auto& [shape, solve] : solves)
    times[shape] = {solve.size(), median(hessians[shape.second]), median(factors[shape.second]),
                    median(solve)};
  return times;
}

std::string milliseconds(double seconds) { return significant_text(1e3 * seconds, 3); }

std::string ratio_text(double published, double own) {
  return own > 0 && published > 0 ? significant_text(published / own, 3) + "x" : "";
}

}  // namespace

Section solvers_section(const RecordPointers& rows) {
  RecordPointers usable;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(usable),
               [](const Record* row) { return has_times(*row); });
  const auto groups = alike_but_for(usable, {kSolver, kPrecision});
  if (groups.empty()) return {};

  RecordPointers shown;
  for (const RecordPointers& group : groups) shown.insert(shown.end(), group.begin(), group.end());
  auto settings = varying_beside_label(shown);
  const ShownSettings shown_settings(shown);
  std::erase(settings, kSolver);
  std::erase(settings, kPrecision);
  ReportTable table;
  table.add_column("rows x columns", true);
  table.add_column("cells");
  for (const std::string& key : settings) table.add_column(key);
  table.add_column("solver");
  table.add_column("layers", true);
  for (const char* title : {"Hessian, ms", "factor, ms", "solve, ms", "factor + solve, ms",
                            "published / this, Hessian", "published / this, factor + solve"})
    table.add_column(title, true);
  const bool fused = std::any_of(shown.begin(), shown.end(),
                                 [](const Record* row) { return in_one_kernel_a_block(*row); });
  for (const RecordPointers& group : groups) {
    std::map<Shape, Times> published;
    std::map<Shape, std::vector<std::pair<const Record*, Times>>> by_shape;
    for (const Record* row : group)
      for (const auto& [shape, times] : times_of(*row)) {
        by_shape[shape].emplace_back(row, times);
        if (row->setting(kSolver) == kPublished) published.emplace(shape, times);
      }
    for (const auto& [shape, cells] : by_shape)
      for (const auto& [row, times] : cells) {
        std::vector<std::string> texts = {
            std::to_string(shape.first) + " x " + std::to_string(shape.second), cell_label(*row)};
        for (const std::string& key : settings) texts.push_back(shown_settings.of(*row, key));
        const double whole = times.factor + times.solve;
        texts.insert(texts.end(),
                     {solver_name(*row), std::to_string(times.layers), milliseconds(times.hessian),
                      milliseconds(times.factor), milliseconds(times.solve), milliseconds(whole)});
        const auto other = published.find(shape);
        const bool compared = other != published.end() && row->setting(kSolver) != kPublished;
        const Times theirs = compared ? other->second : Times{};
        texts.push_back(ratio_text(theirs.hessian, times.hessian));
        texts.push_back(ratio_text(theirs.factor + theirs.solve, whole));
        table.add_row(std::move(texts));
      }
  }
  const std::string how =
      fused
          ? ", here with each block of columns in one kernel of ours: `method.step_by_step: true` "
            "has the published code's tensor operations."
          : ", the published algorithm step by step.";
  return {"solvers",
          "Layers by shape: time of each solver",
          "",
          std::move(table),
          {},
          "Medians over the layers of a shape. Hessian: of all tokens, once for all layers that "
          "read the same input; so is its factor. Solve: from weights to codes, without measuring "
          "errors. published: `method.solver: reference` on the same device" +
              how};
}

}  // namespace gptqb
