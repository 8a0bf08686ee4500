// Safetensors files that grow tensor by tensor, so that a checkpoint is never whole in memory.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/safetensors.h"

namespace gptqb {

// The shards of a folder that is being written: model.safetensors, or model-00001-of-00003 ... with
// model.safetensors.index.json. The metadata `format: pt` is in every shard.
class ShardWriter {
 public:
  // `folder` is there. `shard_bytes`: a shard ends before the tensor that would take it beyond this
  // (a larger tensor gets a shard of its own). `header_bytes`: room left for the header of each
  // shard, whose tensors are not known when it begins; a shard that fills it ends too.
  ShardWriter(std::filesystem::path folder, int64_t shard_bytes, int64_t header_bytes);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Appends CPU tensors to the shard that is open. The format has no room for padding, and each
  // tensor begins at a multiple of its element size: one whose bytes would misalign what follows
  // (halves of an odd number) waits in memory and goes last into its shard. Throws Error naming the
  // file: a name that was added before, a disk that is full.
  void add(std::vector<std::pair<std::string, at::Tensor>> tensors);
  // Writes the last header and the index, and flushes all to disk.
  void finish();

  // Of all tensors so far.
  int64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  class Shard;

  void add_one(const std::string& name, const at::Tensor& tensor);
  void close_shard();
  std::filesystem::path part_path(size_t shard) const;

  std::filesystem::path folder_;
  int64_t shard_bytes_;
  int64_t header_bytes_;
  int64_t tensor_bytes_ = 0;
  std::unique_ptr<Shard> shard_;
  size_t shards_ = 0;                       // closed ones
  std::map<std::string, size_t> shard_of_;  // by tensor
};

// Room for the header of a shard that may hold all of these tensors.
int64_t header_room(const std::vector<std::string>& names);

}  // namespace gptqb
