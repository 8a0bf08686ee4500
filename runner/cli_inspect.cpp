// inspect: what a model folder holds and what it takes, without computing with it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "common/error.h"
#include "methods/half_type.h"
#include "models/causal_lm.h"
#include "models/packed_linears.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/held_memory.h"
#include "runner/run.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

std::string size_text(double bytes) {
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const bool large = bytes >= kGibi;
  char text[32];
  std::snprintf(text, sizeof text, "%.3f %s", bytes / (large ? kGibi : kMebi),
                large ? "GiB" : "MiB");
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

double bytes_on_disk(const fs::path& folder) {
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  return bytes;
}

// "4 bits, groups of 128, symmetric, gptq": layers that are stored alike, and how many there are.
std::map<std::string, int64_t> layers_by_format(const fs::path& folder,
                                                const std::string& checkpoint_format) {
  const auto config = read_packed_config(folder, ConfigReader(folder / "config.json"));
  const TensorReader tensors(folder, config ? config->file_names : std::vector<std::string>());
  const PackedLinears packed(tensors, config, checkpoint_format);
  std::map<std::string, int64_t> counts;
  for (const std::string& name : packed.names()) {
    const auto [out, in] = packed.sizes_of(name);
    const PackedLayer layer = packed.layout(name, out, in);
    std::string text = std::to_string(layer.bits) + " bits, ";
    text +=
        layer.group_size < 0 ? "one group a row" : "groups of " + std::to_string(layer.group_size);
    if (layer.symmetric) text += ", symmetric";
    if (layer.act_order) text += ", act-order";
    ++counts[text + ", " + format_name(layer.format)];
  }
  return counts;
}

// The tensors of a model on a device, as much of them as a row of the table is about.
class Placed {
 public:
  // `model`, on the host, is that of `folder`; it must outlive this.
  Placed(const fs::path& folder, const std::string& checkpoint_format, CausalLm& model,
         at::Device device)
      : folder_(folder), checkpoint_format_(checkpoint_format), device_(device), model_(&model) {}

  // Packed ones as in the files, all others in the model's dtype.
  std::vector<at::Tensor> packed() const {
    const auto config = read_packed_config(folder_, ConfigReader(folder_ / "config.json"));
    const TensorReader tensors(folder_, config ? config->file_names : std::vector<std::string>());
    const PackedLinears linears(tensors, config, checkpoint_format_);
    std::vector<at::Tensor> held;
    for (const std::string& layer : linears.names())
      for (const std::string& name : linears.tensors_of(layer)) put(tensors.view(name), held);
    for (const std::string& name : model_->tensor_names())
      if (!is_packed(linears, name)) put(model_->tensor(name), held);
    return held;
  }
  std::vector<at::Tensor> dequantized() const {
    std::vector<at::Tensor> held;
    for (const std::string& name : model_->tensor_names()) put(model_->tensor(name), held);
    return held;
  }
  std::vector<at::Tensor> cache(int64_t tokens) const {
    return {at::zeros({tokens * model_->cached_per_token()},
                      at::TensorOptions(device_).dtype(model_->dtype()))
                .fill_(1)};
  }

 private:
  // Files may leave the model's prefix out.
  static bool is_packed(const PackedLinears& linears, const std::string& tensor) {
    constexpr std::string_view kEnd = ".weight";
    if (!tensor.ends_with(kEnd)) return false;
    const std::string layer = tensor.substr(0, tensor.size() - kEnd.size());
    const auto& names = linears.names();
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == layer || name.ends_with("." + layer) || layer.ends_with("." + name);
    });
  }
  void put(const at::Tensor& tensor, std::vector<at::Tensor>& held) const {
    held.push_back(tensor.to(device_, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  }

  fs::path folder_;
  std::string checkpoint_format_;
  at::Device device_;
  CausalLm* model_;
};

}  // namespace

int inspect_command(const InspectOptions& options, std::ostream& out) {
  const fs::path folder = options.folder;
  const auto model = open_model(folder, {.checkpoint_format = options.checkpoint_format});
  const PackedShare share = model->packed_share();
  const auto element = static_cast<double>(c10::elementSize(model->dtype()));
  const auto all = static_cast<double>(model->parameter_count());
  const auto packed = static_cast<double>(share.weights);
  const double stored = static_cast<double>(share.bits) / 8 + (all - packed) * element;
  const auto padded = [](const std::string& text, size_t width) {
    return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
  };
  const auto line = [&](const std::string& name, const std::string& value) {
    out << padded(name, 28) << value << '\n';
  };
  line("architecture", model->architecture() + ", " + std::to_string(model->block_count()) +
                           " blocks, " + std::to_string(model->parameter_count()) + " weights");
  line("dtype", type_name(model->dtype()));
  if (share.weights > 0) {
    for (const auto& [format, count] : layers_by_format(folder, options.checkpoint_format))
      line("layers", std::to_string(count) + " of " + format);
    line("bits per packed weight", number(static_cast<double>(share.bits) / packed));
  }
  line("bits per weight", number(8 * stored / all));
  line("on disk", size_text(bytes_on_disk(folder)));

  const at::Device device(one_device(options.device));
  const Placed placed(folder, options.checkpoint_format, *model, device);
  out << '\n' << padded("memory of " + device.str(), 28) << padded("predicted", 16) << "measured\n";
  const auto row = [&](const std::string& name, double bytes, const auto& make) {
    std::string measured = "-";
    if (options.measure) {
      const auto room = static_cast<double>(free_bytes(device));
      measured = bytes > room ? "not measured: " + size_text(room) + " are free"
                              : size_text(static_cast<double>(held_bytes(device, make)));
    }
    out << padded(name, 28) << padded(size_text(bytes), 16) << measured << '\n';
  };
  std::vector<std::pair<std::string, std::pair<double, std::function<std::vector<at::Tensor>()>>>>
      forms;
  if (share.weights > 0)
    forms.push_back({"weights, packed", {stored, [&] { return placed.packed(); }}});
  forms.push_back({share.weights > 0 ? "weights, dequantized" : "weights",
                   {all * element, [&] { return placed.dequantized(); }}});
  for (const auto& [name, form] : forms) {
    row(name, form.first, form.second);
    for (const int64_t tokens : std::set<int64_t>{std::min<int64_t>(2048, model->max_positions()),
                                                  model->max_positions()}) {
      const double cache = static_cast<double>(tokens * model->cached_per_token()) * element;
      row("  + cache of " + std::to_string(tokens) + " tokens", form.first + cache, [&] {
        std::vector<at::Tensor> held = form.second();
        for (at::Tensor& tensor : placed.cache(tokens)) held.push_back(std::move(tensor));
        return held;
      });
    }
  }
  if (!options.measure)
    out << "Measured with --measure, which puts all of it there; activations are in no row.\n";
  for (const std::string& note : model->notes()) out << "note: " << note << '\n';
  return kExitOk;
}

}  // namespace gptqb
