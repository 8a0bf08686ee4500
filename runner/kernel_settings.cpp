#include "runner/kernel_settings.h"

#include <algorithm>
#include <regex>

#include "eval/kernel_bench.h"
#include "methods/matmul_device.h"
#include "models/causal_lm.h"
#include "models/published_shapes.h"
#include "runner/cell.h"
#include "runner/plan.h"
#include "runner/run.h"
#include "runner/schema.h"

namespace gptqb {
namespace {

using nlohmann::json;

const std::string kSection = "kernels.";

std::vector<KernelShape> shapes_like(const std::string& model) {
  SyntheticModel synthetic;
  synthetic.like = model;
  std::vector<KernelShape> shapes;
  for (const ModelSizes::Stage& stage : open_synthetic(synthetic, {})->sizes().stages)
    for (const int64_t out : stage.outs) {
      const KernelShape shape{stage.in, out};
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    }
  return shapes;
}

void check_texts(const std::string& key, const Setting& setting, Faults& faults) {
  const json values = setting.value.is_array() ? setting.value : json::array({setting.value});
  for (const json& value : values) {
    const auto text = value.get<std::string>();
    try {
      if (key == "kernels.shapes") kernel_shape(text);
    } catch (const Error&) {
      faults.add(setting.position, key, "expected KxN such as 4096x11008, got '" + text + "'");
    }
    const auto names = registered_kernels().names;
    if (key == "kernels.kernel" && text != "all" &&
        std::find(names.begin(), names.end(), text) == names.end())
      faults.add(setting.position, key, unknown_name(text, names));
    const auto models = published_shapes();
    if (key == "kernels.like" && std::find(models.begin(), models.end(), text) == models.end())
      faults.add(setting.position, key, unknown_name(text, models));
  }
}

}  // namespace

KernelShape kernel_shape(const std::string& text) {
  static const std::regex kShape("([1-9][0-9]{0,8})[xX]([1-9][0-9]{0,8})");
  std::smatch parts;
  if (!std::regex_match(text, parts, kShape))
    throw Error("kernels.shapes", "expected KxN such as 4096x11008, got '" + text + "'");
  return {std::stoll(parts[1]), std::stoll(parts[2])};
}

Values kernel_values(const Settings& document, Faults& faults) {
  Values values;
  const Setting* any = nullptr;
  for (const auto& [key, setting] : document) {
    if (key.compare(0, kSection.size(), kSection) != 0) continue;
    any = &setting;
    values[key] = setting.value;
    if (key == "kernels.like" || key == "kernels.shapes" || key == "kernels.kernel")
      check_texts(key, setting, faults);
  }
  if (any == nullptr) return values;
  const bool like = values.contains("kernels.like"), shapes = values.contains("kernels.shapes");
  if (like == shapes)
    faults.add(any->position, "kernels",
               std::string("expected one of kernels.like and kernels.shapes, got ") +
                   (like ? "both" : "none"));
  for (const KeySpec& spec : key_table()) {
    if (spec.key.compare(0, kSection.size(), kSection) != 0) continue;
    if (!values.contains(spec.key) && !spec.default_value.is_null())
      values[spec.key] = spec.default_value;
    const auto value = values.find(spec.key);
    if (spec.arity == Arity::kOneOrList && value != values.end() && !value->second.is_array())
      value->second = json::array({value->second});
  }
  return values;
}

KernelBenchSpec kernel_bench_of(const Cell& cell) {
  KernelBenchSpec spec = cell.kernels();
  if (!cell.kernels_like().empty()) spec.shapes = shapes_like(cell.kernels_like());
  return spec;
}

void check_kernels(const Plan& plan, const std::string& device, const KernelSource& source) {
  for (const PlannedCell& planned : plan.cells)
    if (planned.skip_reason.empty() && planned.cell.measures_kernels())
      check_kernel_bench(kernel_bench_of(planned.cell),
                         matmul_device(at::Device(one_device(device))), source);
}

}  // namespace gptqb
