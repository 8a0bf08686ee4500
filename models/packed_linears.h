// The packed linears of a checkpoint: which there are, how each is stored, and unpacking one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "methods/quantized_linear.h"
#include "models/checkpoint.h"
#include "models/packed_config.h"

namespace gptqb {

// Names are those in the files, without what follows the layer ("model.layers.0.mlp.up_proj").
//
// Which zero points `gptq` tensors hold, in this order:
// 1. `checkpoint_format` of the experiment, where it is not auto;
// 2. the values: if all zero points are one number, 2^(b-1) means gptq_v2 and 2^(b-1) - 1 means
//    gptq, for symmetric grids have no other zero point. Looked at in up to 64 layers;
// 3. the folder's label;
// 4. without one: gptq, as AutoGPTQ means it.
// Where values differ from label or experiment, and where neither decides, notes() says so.
class PackedLinears {
 public:
  // `config` empty: the folder says nothing, and bits and group size follow from shapes.
  // `checkpoint_format` as the key of the experiment: auto, gptq, gptq_v2, compressed-tensors.
  // Throws Error: packed tensors of another format than config or experiment name, none at all
  // where they name one.
  PackedLinears(const TensorReader& tensors, std::optional<PackedConfig> config,
                const std::string& checkpoint_format);

  bool empty() const { return layers_.empty(); }
  bool has(const std::string& layer) const { return layers_.contains(layer); }
  const std::set<std::string>& names() const { return layers_; }
  // {out, in} as the layer's own tensors say. Throws Error if they do not.
  std::pair<int64_t, int64_t> sizes_of(const std::string& layer) const;
  // Full names of the layer's packed tensors.
  std::vector<std::string> tensors_of(const std::string& layer) const;

  // How a layer of `out` x `in` is stored; holds the shapes and dtypes of its tensors against that,
  // and reads none. Throws Error naming the tensor.
  PackedLayer layout(const std::string& layer, int64_t out, int64_t in) const;
  // Throws Error naming tensor and place as layout(), unpack_gptq() and unpack_compressed().
  QuantizedLinear unpack(const std::string& layer, int64_t out, int64_t in) const;
  at::ScalarType scale_dtype(const std::string& layer) const;
  // What the layer's packed tensors take in the files.
  int64_t stored_bytes(const std::string& layer) const;

  const std::optional<PackedConfig>& config() const { return config_; }
  // The folder's label, where its zero points say that it is wrong: other readers trust it.
  std::optional<PackedFormat> wrong_label() const { return wrong_label_; }
  // What a reader of results must know of how the folder was read.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void find_layers();
  void choose_zero_points(const std::string& checkpoint_format);
  std::optional<PackedFormat> format_by_values() const;
  PackedLayer stored_as(const std::string& layer, int64_t in) const;
  PackedLayer inferred(const std::string& layer, int64_t in) const;
  const std::vector<int64_t>& shape(const std::string& layer, const char* part) const;
  at::Tensor part(const std::string& layer, const char* name) const;

  TensorReader tensors_;
  std::optional<PackedConfig> config_;
  PackedFormat format_ = PackedFormat::kGptq;
  std::optional<PackedFormat> wrong_label_;
  std::set<std::string> layers_;
  std::vector<std::string> notes_;
};

}  // namespace gptqb
