// inspect: what a model folder holds and what it takes, without running it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "common/error.h"
#include "methods/half_type.h"
#include "models/causal_lm.h"
#include "models/packed_linears.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"

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

}  // namespace

int inspect_command(const std::string& folder, const std::string& checkpoint_format,
                    std::ostream& out) {
  const auto model = open_model(folder, {.checkpoint_format = checkpoint_format});
  const PackedShare share = model->packed_share();
  const auto element = static_cast<double>(c10::elementSize(model->dtype()));
  const auto all = static_cast<double>(model->parameter_count());
  const auto packed = static_cast<double>(share.weights);
  const double stored = static_cast<double>(share.bits) / 8 + (all - packed) * element;
  const auto line = [&](const std::string& name, const std::string& value) {
    out << name << std::string(name.size() < 28 ? 28 - name.size() : 1, ' ') << value << '\n';
  };
  line("architecture", model->architecture() + ", " + std::to_string(model->block_count()) +
                           " blocks, " + std::to_string(model->parameter_count()) + " weights");
  line("dtype", type_name(model->dtype()));
  if (share.weights > 0) {
    for (const auto& [format, count] : layers_by_format(folder, checkpoint_format))
      line("layers", std::to_string(count) + " of " + format);
    line("bits per packed weight", number(static_cast<double>(share.bits) / packed));
  }
  line("bits per weight", number(8 * stored / all));
  line("on disk", size_text(bytes_on_disk(folder)));
  out << "\npredicted device memory\n";
  if (share.weights > 0) line("  weights, packed", size_text(stored));
  line(share.weights > 0 ? "  weights, dequantized" : "  weights", size_text(all * element));
  for (const int64_t tokens :
       std::set<int64_t>{std::min<int64_t>(2048, model->max_positions()), model->max_positions()}) {
    const double cache = static_cast<double>(tokens * model->cached_per_token()) * element;
    line("  + cache of " + std::to_string(tokens) + " tokens", size_text(cache));
  }
  for (const std::string& note : model->notes()) out << "note: " << note << '\n';
  return kExitOk;
}

}  // namespace gptqb
