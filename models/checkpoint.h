// The tensors of a Hugging Face folder, by name: one safetensors file, or shards with an index.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/safetensors.h"

namespace gptqb {

// Named tensors, mapped and never read as a whole.
class TensorReader {
 public:
  // Opens `folder`/model.safetensors, else the shards that model.safetensors.index.json names; else
  // the same for each of `other_names` in place of "model". Throws Error: none is there (with what
  // is there instead: pickled weights are refused), a shard that is missing or lies outside the
  // folder, an index entry whose shard lacks the tensor, a tensor in a shard that has no entry.
  explicit TensorReader(const std::filesystem::path& folder,
                        const std::vector<std::string>& other_names = {});

  const std::filesystem::path& folder() const { return folder_; }
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return files_by_tensor_.contains(name); }
  // Both throw Error if there is no tensor of that name.
  const TensorInfo& info(const std::string& name) const;
  at::Tensor view(const std::string& name) const;
  // As SafetensorsFile::release_pages.
  void release_pages(const std::string& name) const;
  // "<file>, tensor '<name>'", for messages.
  std::string describe(const std::string& name) const;

  // What is odd about the files and changes nothing that is read, a sentence each: safetensors of
  // the folder that are not read, a total_size of the index that its tensors do not have.
  std::vector<std::string> notes() const;

  // SHA-256 over config.json and the fingerprint of each file (safetensors.h).
  std::string fingerprint() const;

 private:
  void open_shards(const std::filesystem::path& index);
  const SafetensorsFile& file_of(const std::string& name) const;

  std::filesystem::path folder_;
  std::filesystem::path index_;       // empty: one file
  std::optional<std::string> total_;  // metadata.total_size of the index, as it stands there
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> files_by_tensor_;
};

// Position (row-major) of the first NaN or infinity in a contiguous CPU tensor of f16, bf16 or f32;
// -1 if all are finite.
int64_t first_non_finite(const at::Tensor& tensor);

}  // namespace gptqb
