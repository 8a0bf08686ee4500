#include "models/packed_convert.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/error.h"
#include "models/packed_folder_writer.h"
#include "models/packed_linears.h"
#include "models/packed_producer.h"
#include "models/packed_rules.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

// The settings that most layers have.
PackedLayer most_common(const std::map<std::string, PackedLayer>& layers) {
  std::map<std::tuple<int64_t, int64_t, bool>, int64_t> counts;
  const auto key = [](const PackedLayer& layer) {
    return std::tuple(layer.bits, layer.group_size, layer.symmetric);
  };
  for (const auto& [name, layer] : layers) ++counts[key(layer)];
  return std::max_element(layers.begin(), layers.end(),
                          [&](const auto& a, const auto& b) {
                            return counts[key(a.second)] < counts[key(b.second)];
                          })
      ->second;
}

}  // namespace

int64_t convert_packed(const std::filesystem::path& folder, const std::string& checkpoint_format,
                       const std::filesystem::path& out, PackedFormat format,
                       const std::string& version, int64_t shard_bytes) {
  const auto model = open_model(folder, {.checkpoint_format = checkpoint_format});
  const auto config = read_packed_config(folder, ConfigReader(folder / "config.json"));
  const TensorReader tensors(folder, config ? config->file_names : std::vector<std::string>());
  const PackedLinears packed(tensors, config, checkpoint_format);
  if (packed.empty())
    throw Error(folder.string(),
                "expected a packed checkpoint, got a dense one. Quantize it: "
                "gptq-bench quantize " +
                    folder.string() + " --out DIR");
  PackedFolderWriter writer(
      {.path = out, .source = folder, .config = {}, .format = format, .shard_bytes = shard_bytes},
      *model);
  std::map<std::string, PackedLayer> layers;
  for (const std::string& name : packed.names()) {
    const auto [rows, columns] = packed.sizes_of(name);
    QuantizedLinear linear = packed.unpack(name, rows, columns);
    writer.add(name, linear);
    PackedLayer layer = packed.layout(name, rows, columns);
    layer.symmetric = linear.zeros.eq(int64_t{1} << (layer.bits - 1)).all().item<bool>();
    layers[name] = layer;
  }
  const PackedLayer base = most_common(layers);
  Json settings = {{"quant_method", "gptq"},
                   {"bits", base.bits},
                   {"group_size", base.group_size},
                   {"sym", base.symmetric},
                   {"desc_act", writer.has_group_index()},
                   {"lm_head", false},
                   {"checkpoint_format", format_name(format)},
                   {"format", format_name(format)},
                   {"pack_dtype", "int32"}};
  if (Json rules = packed_rules(base, layers, writer.dense_layers()); !rules.empty())
    settings["dynamic"] = std::move(rules);
  settings["meta"] = {{"quantizer", {producer(version)}},
                      {"converted_from", folder.filename().string()}};
  writer.complete(*model, settings);
  writer.publish();
  return static_cast<int64_t>(layers.size());
}

}  // namespace gptqb
