#include "runner/packed_save.h"

#include <set>
#include <utility>

#include "common/error.h"
#include "common/hash.h"
#include "models/packed_checks.h"
#include "models/packed_linears.h"
#include "models/packed_producer.h"
#include "models/packed_rules.h"
#include "runner/build_info.h"

namespace gptqb {
namespace {

using Json = nlohmann::ordered_json;

std::string grid_hash(const QuantizedLinear& linear) {
  // An index that says what the group size says is none.
  const at::Tensor natural = natural_groups(linear.in_features(), linear.group_size);
  const at::Tensor index =
      linear.group_of_input.defined() ? linear.group_of_input.to(at::kCPU) : natural;
  Sha256 hash;
  for (const at::Tensor& tensor : {linear.scales, linear.zeros, index}) {
    const at::Tensor host = tensor.to(at::kCPU).contiguous();
    hash.add(host.const_data_ptr(), host.nbytes());
  }
  return hash.hex();
}

}  // namespace

std::filesystem::path save_folder(const SaveSettings& save, const Cell& cell,
                                  const std::filesystem::path& base) {
  const std::filesystem::path path = (base / save.path).lexically_normal();
  return save.folder_per_cell ? path / cell.id() : path;
}

bool is_saved(const SaveSettings& save, const Cell& cell, const std::filesystem::path& base,
              const std::string& source) {
  const std::filesystem::path folder = save_folder(save, cell, base);
  const auto settings = own_settings(folder);
  if (!settings || settings->value("checkpoint_format", "") != format_name(save.format_of(cell)))
    return false;
  const auto& meta = settings->at("meta");
  if (meta.value("cell", "") != cell.id() || meta.value("source", "") != source ||
      meta.value("shard_bytes", int64_t{0}) != save.shard_bytes)
    return false;
  try {
    // Every shard, header and shape: what says that it is there may be all that is left.
    open_model(folder, {.dtype = "auto"});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Json quantization_settings(const Cell& cell, const PackedFolderWriter& writer,
                           const std::string& source) {
  const auto uses = [&](const char* key) { return !cell.setting(key).empty(); };
  const auto stored = [&](const QuantConfig& quant) {
    return PackedLayer{.format = writer.format(),
                       .bits = quant.bits,
                       .group_size = quant.group_size,
                       .symmetric = quant.symmetric};
  };
  std::map<std::string, PackedLayer> layers;
  for (const std::string& layer : writer.layers())
    layers[layer] = stored(layer == writer.head() ? *cell.head() : cell.settings_for(layer).quant);
  const char* format = format_name(writer.format());
  Json settings = {
      {"quant_method", "gptq"},
      {"bits", cell.quant().bits},
      {"group_size", cell.quant().group_size},
      {"sym", cell.quant().symmetric},
      // Where columns keep their place, readers need no index and run faster.
      {"desc_act", writer.has_group_index()},
      {"static_groups", uses("method.static_groups") && cell.method().static_groups},
      {"true_sequential", uses("method.true_sequential") && cell.method().true_sequential}};
  if (uses("method.damping")) settings["damp_percent"] = cell.method().damping;
  settings["lm_head"] = !writer.head().empty();
  settings["checkpoint_format"] = format;
  settings["format"] = format;
  settings["pack_dtype"] = "int32";
  if (Json rules = packed_rules(stored(cell.quant()), layers, writer.dense_layers());
      !rules.empty())
    settings["dynamic"] = std::move(rules);
  settings["meta"] = {{"quantizer", {producer(build_info().version)}},
                      {"commit", build_info().commit},
                      {"method", cell.method().name},
                      {"act_order", uses("method.act_order") && cell.method().act_order},
                      {"cell", cell.id()},
                      {"source", source},
                      {"shard_bytes", writer.shard_bytes()}};
  return settings;
}

std::optional<FinishedBlock> SavingStore::load(int64_t block) {
  if (kept_ == nullptr) return std::nullopt;
  auto finished = kept_->load(block);
  if (finished) write(block, *finished);
  return finished;
}

void SavingStore::save(int64_t block, const FinishedBlock& finished) {
  write(block, finished);
  if (kept_ != nullptr) kept_->save(block, finished);
}

std::map<std::string, KeptLinear> SavingStore::linears(int64_t block) {
  if (kept_ == nullptr)
    throw Error("block " + std::to_string(block),
                "expected it to be kept, got a run that keeps none");
  return kept_->linears(block);
}

void SavingStore::check_moved(int64_t block, const FinishedBlock& finished) const {
  if (finished.divided.empty()) return;
  const std::vector<std::string> names = model_.tensor_names();
  const std::set<std::string> tensors(names.begin(), names.end());
  for (const auto& [producer, scale] : finished.divided)
    if (const std::string name = model_.block_name(block) + "." + producer;
        !tensors.contains(name + ".weight"))
      throw Error(name, kMovedScales);
}

void SavingStore::write(int64_t block, const FinishedBlock& finished) {
  check_moved(block, finished);
  for (const auto& [linear, kept] : finished.linears) {
    // The head is kept behind the last block.
    const std::string layer = block == model_.block_count()
                                  ? model_.extras().head
                                  : model_.block_name(block) + "." + linear;
    const LinearReplacement replacement = kept.replacement();
    const auto* quantized = std::get_if<QuantizedLinear>(&replacement.form);
    if (quantized == nullptr)
      throw Error(layer,
                  "expected codes and grids alone, which a packed checkpoint holds, got a "
                  "layer with more to it. Leave `save` out");
    writer_.add(layer, *quantized);
    grids_[layer] = grid_hash(*quantized);
  }
}

void verify_saved(const std::filesystem::path& folder, CausalLm& model,
                  const std::vector<LayerHealth>& layers,
                  const std::map<std::string, std::string>& grids, bool weights) {
  // As a model: all tensors are there, in the shapes and dtypes that config.json asks for.
  const auto reopened = open_model(folder, {.dtype = "auto"});
  const std::filesystem::path config = folder / "config.json";
  const PackedLinears packed(TensorReader(folder), read_packed_config(folder, ConfigReader(config)),
                             "auto");
  std::map<std::string, std::string> codes;
  for (const LayerHealth& layer : layers) codes[layer.layer] = layer.codes;
  const auto check = [&](const std::string& layer, int64_t out, int64_t in, const auto& computed) {
    if (!grids.contains(layer)) return;
    const auto differs = [&](const char* what) {
      throw Error(folder.string() + ", " + layer,
                  std::string("expected the ") + what +
                      " of the model that was quantized, got others from disk. This is a fault of "
                      "gptq-bench or of the disk: please report it");
    };
    const QuantizedLinear back = packed.unpack(layer, out, in);
    if (back.codes_hash() != codes[layer]) differs("codes");
    if (grid_hash(back) != grids.at(layer)) differs("grids");
    if (!weights) return;
    const at::Tensor wanted = computed();
    if (!at::equal(back.dequantize(model.dtype()).to(wanted.device()), wanted)) differs("weights");
  };
  const ModelSizes sizes = model.sizes();
  for (int64_t block = 0; block < model.block_count(); ++block) {
    if (weights) model.load_block(block);
    for (size_t stage = 0; stage < model.stages().size(); ++stage)
      for (size_t i = 0; i < model.stages()[stage].linears.size(); ++i) {
        const std::string& linear = model.stages()[stage].linears[i];
        check(model.block_name(block) + "." + linear, sizes.stages[stage].outs[i],
              sizes.stages[stage].in, [&] { return model.weight(linear); });
      }
  }
  model.release_block();
  const ModelExtras ends = model.extras();
  check(ends.head, ends.head_shape[0], ends.head_shape[1],
        [&] { return model.end_weight(ModelEnd::kHead); });
}

}  // namespace gptqb
