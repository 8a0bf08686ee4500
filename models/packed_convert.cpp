#include "models/packed_convert.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/atomic_file.h"
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

// All that the folder says of its quantization, in the order of its files.
Json own_words(const std::filesystem::path& folder) {
  Json said = Json::object();
  const auto add = [&](const Json& more) {
    for (const auto& [key, value] : more.items())
      if (!said.contains(key)) said[key] = value;
  };
  const Json config = Json::parse(read_file(folder / "config.json"));
  const auto section = config.find("quantization_config");
  if (section != config.end() && section->is_object()) add(*section);
  for (const char* name : {"quantize_config.json", "quant_config.json"})
    if (std::filesystem::exists(folder / name)) add(Json::parse(read_file(folder / name)));
  return said;
}

// What is the same in every format: which settings the layers were quantized with.
Json settings_of_layers(const std::map<std::string, PackedLayer>& layers,
                        const PackedFolderWriter& writer) {
  const PackedLayer base = most_common(layers);
  Json settings = {{"bits", base.bits},
                   {"group_size", base.group_size},
                   {"sym", base.symmetric},
                   {"desc_act", writer.has_group_index()},
                   {"lm_head", !writer.head().empty()}};
  if (Json rules = packed_rules(base, layers, writer.dense_layers()); !rules.empty())
    settings["dynamic"] = std::move(rules);
  return settings;
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
  const std::string head = model->extras().head;
  PackedFolderWriter writer({.path = out,
                             .source = folder,
                             .config = {},
                             .format = format,
                             .shard_bytes = shard_bytes,
                             .head = packed.has(head) ? head : ""},
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
  // A gptq folder's own settings stay: readers of the one are readers of the other.
  const bool keeps = config && config->format != PackedFormat::kCompressedTensors;
  Json settings = keeps ? own_words(folder) : settings_of_layers(layers, writer);
  for (const char* stale : {"method", "model_file_base_name", "model_basename"})
    settings.erase(stale);
  settings["quant_method"] = "gptq";
  if (writer.has_group_index()) settings["desc_act"] = true;
  settings["checkpoint_format"] = format_name(format);
  settings["format"] = format_name(format);
  settings["pack_dtype"] = "int32";
  Json& meta = settings["meta"];
  if (!meta.is_object()) meta = Json::object();
  if (meta.contains("quantizer")) meta["quantized_by"] = meta.at("quantizer");
  meta["quantizer"] = Json::array({producer(version)});
  meta["converted_from"] = (folder / "").parent_path().filename().string();
  std::set<std::string> packed_tensors;
  for (const std::string& name : packed.names())
    for (std::string& tensor : packed.tensors_of(name)) packed_tensors.insert(std::move(tensor));
  writer.complete(tensors, packed_tensors, settings);
  writer.publish();
  return static_cast<int64_t>(layers.size());
}

}  // namespace gptqb
