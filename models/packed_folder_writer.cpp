#include "models/packed_folder_writer.h"

#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "methods/clock.h"
#include "methods/half_type.h"
#include "models/gptq_tensors.h"
#include "models/packed_checks.h"
#include "models/packed_producer.h"
#include "models/replace_folder.h"
#include "models/save_target.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class BusyTime {
 public:
  explicit BusyTime(double& seconds) : seconds_(seconds) {}
  ~BusyTime() { seconds_ += watch_.seconds(); }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  double& seconds_;
  Stopwatch watch_{at::kCPU};
};

std::vector<std::string> all_names(const CausalLm& model,
                                   const std::map<std::string, bool>& linears) {
  std::vector<std::string> names = model.tensor_names();
  for (const auto& [layer, added] : linears)
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"})
      names.push_back(layer + part);
  return names;
}

}  // namespace

PackedFolderWriter::PackedFolderWriter(PackedFolderOptions options, const CausalLm& model)
    : options_(std::move(options)) {
  if (options_.path.filename().empty()) options_.path = options_.path.parent_path();  // "folder/"
  check_replaceable(options_.path, options_.source);
  claim_.emplace(temporary_name(options_.path));
  for (int64_t block = 0; block < model.block_count(); ++block)
    for (const Stage& stage : model.stages())
      for (const std::string& linear : stage.linears)
        packed_[model.block_name(block) + "." + linear] = false;
  if (!options_.head.empty()) packed_[options_.head] = false;
  // First, so that a disk that is full or a file that cannot be read costs no work.
  copy_other_files();
  shards_.emplace(temporary(), options_.shard_bytes, header_room(all_names(model, packed_)));
}

void PackedFolderWriter::add(const std::string& layer, const QuantizedLinear& linear) {
  const std::lock_guard lock(mutex_);
  const BusyTime busy(busy_seconds_);
  const auto found = packed_.find(layer);
  if (found == packed_.end() || found->second)
    throw Error(layer, "expected each linear of the blocks once, got this one " +
                           std::string(found == packed_.end() ? "in addition" : "twice"));
  GptqTensors tensors = pack_gptq(linear, options_.format, layer);
  const at::Tensor natural = natural_groups(linear.in_features(), linear.group_size);
  has_group_index_ = has_group_index_ || !at::equal(tensors.g_idx, natural);
  shards_->add({{layer + ".qweight", std::move(tensors.qweight)},
                {layer + ".qzeros", std::move(tensors.qzeros)},
                {layer + ".scales", std::move(tensors.scales)},
                {layer + ".g_idx", std::move(tensors.g_idx)}});
  found->second = true;
}

std::vector<std::string> PackedFolderWriter::names(bool packed) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [layer, added] : packed_)
    if (added == packed) names.push_back(layer);
  return names;
}

void PackedFolderWriter::complete(CausalLm& model, const Json& quantization) {
  const std::lock_guard lock(mutex_);
  const BusyTime busy(busy_seconds_);
  write_dense(model);
  finish(type_name(model.dtype()), quantization);
}

void PackedFolderWriter::complete(const TensorReader& dense, const std::set<std::string>& left_out,
                                  const Json& quantization) {
  const std::lock_guard lock(mutex_);
  const BusyTime busy(busy_seconds_);
  for (const std::string& name : dense.names())
    if (!left_out.contains(name)) shards_->add({{name, dense.view(name)}});
  finish(std::nullopt, quantization);
}

void PackedFolderWriter::write_dense(CausalLm& model) {
  constexpr std::string_view kEnd = ".weight";
  for (const std::string& name : model.tensor_names()) {
    if (name.ends_with(kEnd)) {
      const auto found = packed_.find(name.substr(0, name.size() - kEnd.size()));
      if (found != packed_.end() && found->second) continue;
    }
    const Stopwatch reading{at::kCPU};
    const at::Tensor tensor = model.tensor(name);
    busy_seconds_ -= reading.seconds();
    shards_->add({{name, tensor}});
  }
}

void PackedFolderWriter::finish(const std::optional<std::string>& dtype, const Json& quantization) {
  shards_->finish();
  Json config = options_.config;
  if (!options_.source.empty()) {
    const fs::path path = options_.source / "config.json";
    config = Json::parse(read_file(path));
  }
  const bool older = config.contains("torch_dtype") && !config.contains("dtype");
  if (dtype) config[older ? "torch_dtype" : "dtype"] = *dtype;
  // A tied head would be the embedding again. Who copies a folder copies one that says so already.
  if (dtype && !options_.head.empty()) config["tie_word_embeddings"] = false;
  config["quantization_config"] = quantization;
  // A folder's name may be no UTF-8, and JSON is.
  const auto text = [](const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  write_file_atomically(temporary() / "quantize_config.json", text(quantization));
  // Last: without it nobody loads what is not complete.
  write_file_atomically(temporary() / "config.json", text(config));
  sync_folder(temporary());
}

void PackedFolderWriter::copy_other_files() const {
  if (options_.source.empty()) return;
  for (const auto& entry : fs::directory_iterator(options_.source)) {
    if (!entry.is_regular_file() || !is_copied_along(entry.path())) continue;
    write_file_atomically(temporary() / entry.path().filename(), read_file(entry.path()));
  }
}

void PackedFolderWriter::publish() {
  fs::path old;
  try {
    check_replaceable(options_.path, options_.source);
    const bool replaces = fs::exists(options_.path);
    if (replaces)
      claim_->move_marker(options_.path);
    else
      claim_->remove_marker();
    if (replaces)
      old = replace_folder(temporary(), options_.path, options_.exchange);
    else
      fs::rename(temporary(), options_.path);
  } catch (const std::exception& fault) {
    std::error_code ignored;
    // What is complete is kept: the work of hours may be in it.
    fs::remove(options_.path / kWritingMarker, ignored);
    claim_->remove_marker();
    throw Error(options_.path.string(),
                "cannot give the finished checkpoint this name. It is kept as " +
                    temporary().string() + ". The reason: " + fault.what());
  }
  const fs::path parent = options_.path.parent_path();
  sync_folder(parent.empty() ? fs::path(".") : parent);
  std::error_code ignored;
  if (!old.empty()) fs::remove_all(old, ignored);
}

}  // namespace gptqb
