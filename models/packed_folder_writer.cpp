#include "models/packed_folder_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "models/gptq_tensors.h"
#include "models/packed_checks.h"
#include "models/packed_producer.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Weights of the source in any form, and files that are written anew.
bool is_copied(const fs::path& file) {
  constexpr std::array kWeights = {".safetensors", ".bin",  ".pt", ".pth",    ".ckpt",
                                   ".gguf",        ".onnx", ".h5", ".msgpack"};
  const std::string name = file.filename().string();
  if (name.ends_with(".index.json") || name == "config.json" || name == "quantize_config.json" ||
      name == "quant_config.json")
    return false;
  return std::find(kWeights.begin(), kWeights.end(), file.extension().string()) == kWeights.end();
}

class BusyTime {
 public:
  explicit BusyTime(double& seconds) : seconds_(seconds) {}
  ~BusyTime() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

const char* dtype_word(at::ScalarType dtype) {
  return dtype == at::kHalf ? "float16" : dtype == at::kBFloat16 ? "bfloat16" : "float32";
}

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
    : options_(std::move(options)), temporary_(options_.path.string() + ".incomplete") {
  if (options_.path.filename().empty()) {  // "folder/"
    options_.path = options_.path.parent_path();
    temporary_ = options_.path.string() + ".incomplete";
  }
  if (fs::exists(options_.path) && !own_settings(options_.path))
    throw Error(options_.path.string(),
                "expected a path where nothing is, or a folder that gptq-bench packed, got "
                "something else. Choose another save.path, or remove it");
  std::error_code failed;
  fs::remove_all(temporary_, failed);
  if (!failed) fs::create_directories(temporary_, failed);
  if (failed) throw Error(temporary_.string(), "cannot make this folder: " + failed.message());
  for (int64_t block = 0; block < model.block_count(); ++block)
    for (const Stage& stage : model.stages())
      for (const std::string& linear : stage.linears)
        packed_[model.block_name(block) + "." + linear] = false;
  shards_.emplace(temporary_, options_.shard_bytes, header_room(all_names(model, packed_)));
}

PackedFolderWriter::~PackedFolderWriter() {
  if (done_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
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
  shards_->finish();
  copy_other_files();
  // Last, for it makes a folder a model: without it nobody loads what is not complete.
  write_config(model, quantization);
  flush_folder(temporary_);
}

void PackedFolderWriter::write_dense(CausalLm& model) {
  constexpr std::string_view kEnd = ".weight";
  for (const std::string& name : model.tensor_names()) {
    if (name.ends_with(kEnd)) {
      const auto found = packed_.find(name.substr(0, name.size() - kEnd.size()));
      if (found != packed_.end() && found->second) continue;
    }
    shards_->add({{name, model.tensor(name)}});
  }
}

void PackedFolderWriter::write_config(const CausalLm& model, const Json& quantization) const {
  Json config = options_.config;
  if (!options_.source.empty()) {
    const fs::path path = options_.source / "config.json";
    config = Json::parse(read_file(path));
  }
  const bool older = config.contains("torch_dtype") && !config.contains("dtype");
  config[older ? "torch_dtype" : "dtype"] = dtype_word(model.dtype());
  config["quantization_config"] = quantization;
  write_file_atomically(temporary_ / "quantize_config.json", quantization.dump(2) + "\n");
  write_file_atomically(temporary_ / "config.json", config.dump(2) + "\n");
}

void PackedFolderWriter::copy_other_files() const {
  if (options_.source.empty()) return;
  for (const auto& entry : fs::directory_iterator(options_.source)) {
    if (!entry.is_regular_file() || !is_copied(entry.path())) continue;
    write_file_atomically(temporary_ / entry.path().filename(), read_file(entry.path()));
  }
}

void PackedFolderWriter::publish() {
  std::error_code failed;
  const bool replaces = fs::exists(options_.path);
  if (replaces && ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, options_.path.c_str(),
                              RENAME_EXCHANGE) != 0)
    failed = std::error_code(errno, std::generic_category());
  if (!replaces) fs::rename(temporary_, options_.path, failed);
  if (failed)
    throw Error(options_.path.string(),
                "cannot give the finished folder its name: " + failed.message());
  const fs::path parent = options_.path.parent_path();
  flush_folder(parent.empty() ? fs::path(".") : parent);
  done_ = true;
  if (replaces) fs::remove_all(temporary_, failed);
}

}  // namespace gptqb
