// The tensors of a packed checkpoint as a WeightSource: packed linears are dequantized when they
// are loaded.
#pragma once

#include <filesystem>
#include <memory>

#include "models/config.h"
#include "models/file_weights.h"
#include "models/packed_linears.h"

namespace gptqb {

class PackedWeights : public FileWeights {
 public:
  PackedWeights(TensorReader tensors, PackedLinears linears)
      : FileWeights(std::move(tensors)), linears_(std::move(linears)) {}

  void bind(const TensorTable& table) override;
  bool has(const std::string& name) const override;
  std::vector<int64_t> shape(const std::string& name) const override;
  // Of a packed weight: that of its scales.
  at::ScalarType dtype(const std::string& name) const override;
  // Computed in f32 from codes and scales, rounded once to `dtype`: the same on every device.
  at::Tensor load(const std::string& name, at::ScalarType dtype, at::Device device) override;
  void rest(const std::string& name) override;
  at::Tensor rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                  at::Device device) override;
  bool same(const std::string& a, const std::string& b) const override;
  std::string describe(const std::string& name) const override;
  // Includes quantize_config.json, which may decide how tensors are read.
  std::string fingerprint() const override;
  PackedShare packed_share() const override;
  std::vector<std::string> notes() const override { return notes_; }

  std::optional<QuantConfig> packed_as(const std::string& name) const override;
  QuantizedLinear unpack(const std::string& name) const override;

 private:
  bool is_packed(const std::string& name) const { return packed_.contains(name); }
  void note_dense(const TensorTable& table);

  PackedLinears linears_;
  std::map<std::string, std::string> packed_;           // the table's names -> layers in the files
  std::map<std::string, std::vector<int64_t>> shapes_;  // of those, [out, in]
  std::vector<std::string> notes_;
};

// The tensors of a folder, packed or dense. `config` is its config.json, `checkpoint_format` as in
// ModelOptions. Throws Error as read_packed_config(), TensorReader and PackedLinears.
std::unique_ptr<WeightSource> folder_weights(const std::filesystem::path& folder,
                                             const ConfigReader& config,
                                             const std::string& checkpoint_format);

}  // namespace gptqb
