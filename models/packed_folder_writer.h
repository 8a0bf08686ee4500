// A packed checkpoint on its way to disk: layer by layer into a temporary folder, which takes its
// name when it is complete.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "methods/quantized_linear.h"
#include "models/causal_lm.h"
#include "models/checkpoint.h"
#include "models/claimed_folder.h"
#include "models/packed_layer.h"
#include "models/replace_folder.h"
#include "models/shard_writer.h"

namespace gptqb {

struct PackedFolderOptions {
  std::filesystem::path path;     // what the folder is called when complete
  std::filesystem::path source;   // config, tokenizer and generation files are copied from here;
                                  // empty: there is only `config`
  nlohmann::ordered_json config;  // of the model; without source, else it is read from there
  PackedFormat format = PackedFormat::kGptq;  // kGptq or kGptqV2
  int64_t shard_bytes = 5'000'000'000;
  std::string head = {};  // full name of the output head, where it is packed too; else empty
  ExchangeNames exchange = exchange_names;  // of the folder with the older one
};

class PackedFolderWriter {
 public:
  // Begins `path`.incomplete with the source's other files, in place of what an interrupted run
  // left there. Throws Error: `path` exists and this program did not write it, or holds files that
  // would be lost with it; its parent is no folder; and as ClaimedFolder. The temporary folder is
  // removed with this object, unless publish() was called.
  PackedFolderWriter(PackedFolderOptions options, const CausalLm& model);
  PackedFolderWriter(const PackedFolderWriter&) = delete;
  PackedFolderWriter& operator=(const PackedFolderWriter&) = delete;

  // Packs and writes a linear of the blocks, or the head, by its full name. May be called by any
  // thread. Throws Error as pack_gptq(), and for a name that is none or came before.
  void add(const std::string& layer, const QuantizedLinear& linear);

  // Writes what is left of `model` as it computes with it, in its dtype; last quantize_config.json,
  // and config.json with `quantization` as quantization_config, untied where the head is packed.
  // The folder can be read then, under its temporary name.
  void complete(CausalLm& model, const nlohmann::ordered_json& quantization);
  // The same with the bytes of `dense` in place of a model's tensors, those in `left_out` apart,
  // and the dtype that config.json names left as it is.
  void complete(const TensorReader& dense, const std::set<std::string>& left_out,
                const nlohmann::ordered_json& quantization);
  // Gives the complete folder its name, in place of an older one that this program wrote: at no
  // moment is there half of one, or, where names can be exchanged, none. Throws Error; the complete
  // folder stays under its temporary name then, and the message says so.
  void publish();

  const std::filesystem::path& path() const { return options_.path; }
  const std::filesystem::path& temporary() const { return claim_->path(); }
  PackedFormat format() const { return options_.format; }
  const std::string& head() const { return options_.head; }
  int64_t shard_bytes() const { return options_.shard_bytes; }
  // Bytes of all tensors, and seconds spent on packing and writing, by whichever thread; reading
  // what is copied unchanged, or making it up, is not counted.
  int64_t bytes() const { return shards_->tensor_bytes(); }
  double busy_seconds() const { return busy_seconds_; }
  // Names of the linears that were added, and of the others of the blocks (and the head, if asked).
  std::vector<std::string> layers() const { return names(true); }
  std::vector<std::string> dense_layers() const { return names(false); }
  // Whether one of them has columns of a group anywhere, so that readers need its index.
  bool has_group_index() const { return has_group_index_; }

 private:
  std::vector<std::string> names(bool packed) const;
  void write_dense(CausalLm& model);
  // Shards and then the settings: config.json last, for it makes a folder a model. `dtype` empty:
  // as config.json has it.
  void finish(const std::optional<std::string>& dtype, const nlohmann::ordered_json& quantization);
  void copy_other_files() const;

  PackedFolderOptions options_;
  std::optional<ClaimedFolder> claim_;
  std::optional<ShardWriter> shards_;
  mutable std::mutex mutex_;
  std::map<std::string, bool> packed_;  // all that may be packed: whether it was added
  bool has_group_index_ = false;
  double busy_seconds_ = 0;
};

}  // namespace gptqb
