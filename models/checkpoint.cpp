#include "models/checkpoint.h"

#include <algorithm>
#include <set>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/hash.h"
#include "models/json.h"
#include "models/message_text.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = ".safetensors";
constexpr const char* kIndex = ".safetensors.index.json";

// Names of weight files in formats that run code when they are read.
std::vector<std::string> pickled_weights(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Index of the first value whose exponent bits are all set, by blocks so that the search runs at
// memory speed.
template <class Bits>
int64_t first_with_full_exponent(const void* data, int64_t count, Bits exponent) {
  const Bits* values = static_cast<const Bits*>(data);
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i)
      found |= static_cast<Bits>((values[i] & exponent) == exponent);
    if (found == 0) continue;
    for (int64_t i = begin; i < end; ++i)
      if ((values[i] & exponent) == exponent) return i;
  }
  return -1;
}

}  // namespace

TensorReader::TensorReader(const fs::path& folder, const std::vector<std::string>& other_names)
    : folder_(folder) {
  if (!fs::is_directory(folder))
    throw Error(folder.string(), "expected a model folder, got none at this path");
  std::string base = "model";
  const auto with_end = [&](const std::string& name, const char* end) {
    return folder / (name + end);
  };
  for (const std::string& name : other_names)
    if (!fs::exists(with_end(base, kSingle)) && !fs::exists(with_end(base, kIndex)) &&
        (fs::exists(with_end(name, kSingle)) || fs::exists(with_end(name, kIndex))))
      base = name;
  const fs::path single = with_end(base, kSingle);
  const fs::path index = with_end(base, kIndex);
  if (fs::exists(single)) {
    files_.emplace_back(single);
    for (const auto& [name, info] : files_[0].tensors()) files_by_tensor_.emplace(name, 0);
  } else if (fs::exists(index)) {
    open_shards(index);
  } else {
    const auto pickled = pickled_weights(folder);
    if (!pickled.empty())
      throw Error(folder.string(), "expected model.safetensors, got pickled weights (" +
                                       shorten_list(pickled) +
                                       "), which run code when they are read. Convert them: "
                                       "transformers' save_pretrained(folder) writes safetensors.");
    throw Error(folder.string(),
                "expected model.safetensors or model.safetensors.index.json, got neither");
  }
}

void TensorReader::open_shards(const fs::path& index) {
  const std::string where = index.string();
  const nlohmann::json parsed = parse_json_object(read_file(index), where);
  index_ = index;
  const auto entries = parsed.find("weight_map");
  if (entries == parsed.end() || !entries->is_object())
    throw Error(where, "expected an object 'weight_map' of tensor names and files");

  if (const auto metadata = parsed.find("metadata");
      metadata != parsed.end() && metadata->is_object() && metadata->contains("total_size"))
    total_ = metadata->at("total_size").dump();

  std::map<std::string, std::vector<std::string>> tensors_by_file;
  for (const auto& [name, file] : entries->items()) {
    if (!file.is_string()) throw Error(where, "expected a file name for tensor '" + name + "'");
    const auto& file_name = file.get_ref<const std::string&>();
    if (file_name.empty() || file_name == "." || file_name == ".." ||
        fs::path(file_name).filename() != fs::path(file_name))
      throw Error(where, "expected a file in the folder itself for tensor '" + name + "', got '" +
                             file_name + "'");
    tensors_by_file[file_name].push_back(name);
  }

  std::vector<std::string> missing_files;
  for (const auto& [file, names] : tensors_by_file)
    if (!fs::exists(folder_ / file)) missing_files.push_back(file);
  if (!missing_files.empty())
    throw Error(where, "expected all shards it names, got none of: " + shorten_list(missing_files) +
                           ". Fetch the missing files.");

  std::vector<std::string> absent;   // named by the index, not in their shard
  std::vector<std::string> unnamed;  // in a shard, not in the index for it
  for (const auto& [file, names] : tensors_by_file) {
    files_.emplace_back(folder_ / file);
    const auto& held = files_.back().tensors();
    for (const std::string& name : names) {
      if (!held.contains(name)) absent.push_back(name + " (in " + file + ")");
      files_by_tensor_.emplace(name, files_.size() - 1);
    }
    for (const auto& [name, info] : held)
      if (std::find(names.begin(), names.end(), name) == names.end())
        unnamed.push_back(name + " (in " + file + ")");
  }
  if (!absent.empty())
    throw Error(where, "expected each tensor in the shard the index names, but the shard lacks: " +
                           shorten_list(absent) + ". Index and shards are of different versions.");
  if (!unnamed.empty())
    throw Error(where, "expected an index entry for each tensor of the shards, got none for: " +
                           shorten_list(unnamed) + ". Index and shards are of different versions.");
}

std::vector<std::string> TensorReader::names() const {
  std::vector<std::string> result;
  for (const auto& [name, file] : files_by_tensor_) result.push_back(name);
  return result;
}

const SafetensorsFile& TensorReader::file_of(const std::string& name) const {
  const auto found = files_by_tensor_.find(name);
  if (found == files_by_tensor_.end())
    throw Error(folder_.string(), "expected a tensor '" + name + "', got none");
  return files_[found->second];
}

const TensorInfo& TensorReader::info(const std::string& name) const {
  return file_of(name).tensors().at(name);
}

at::Tensor TensorReader::view(const std::string& name) const { return file_of(name).view(name); }

std::string TensorReader::describe(const std::string& name) const {
  return file_of(name).path().string() + ", tensor '" + name + "'";
}

void TensorReader::release_pages(const std::string& name) const {
  file_of(name).release_pages(name);
}

std::vector<std::string> TensorReader::notes() const {
  std::vector<std::string> notes, stray;
  std::set<std::string> read;
  uint64_t bytes = 0;
  for (const SafetensorsFile& file : files_) {
    read.insert(file.path().filename().string());
    for (const auto& [name, info] : file.tensors()) bytes += info.end - info.begin;
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == kSingle && !read.contains(name)) stray.push_back(name);
  }
  std::sort(stray.begin(), stray.end());
  if (!stray.empty())
    notes.push_back(folder_.string() + ": weight files that are not read, for " +
                    (index_.empty() ? files_.front().path().filename().string() + " is there"
                                    : "the index does not name them") +
                    ": " + shorten_list(stray));
  if (total_ && *total_ != std::to_string(bytes))
    notes.push_back(index_.string() + ": metadata.total_size is " + *total_ +
                    ", its tensors take " + std::to_string(bytes) + " bytes");
  return notes;
}

std::string TensorReader::fingerprint() const {
  Sha256 hash;
  hash.add(read_file(folder_ / "config.json"));
  for (const SafetensorsFile& file : files_) {
    hash.add(file.path().filename().string());
    hash.add(file.fingerprint());
  }
  return hash.hex();
}

int64_t first_non_finite(const at::Tensor& tensor) {
  const int64_t count = tensor.numel();
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kHalf:
      return first_with_full_exponent<uint16_t>(data, count, 0x7C00);
    case at::kBFloat16:
      return first_with_full_exponent<uint16_t>(data, count, 0x7F80);
    case at::kFloat:
      return first_with_full_exponent<uint32_t>(data, count, 0x7F800000);
    default:
      throw Error("finite check", std::string("expected f16, bf16 or f32, got ") +
                                      at::toString(tensor.scalar_type()));
  }
}

}  // namespace gptqb
