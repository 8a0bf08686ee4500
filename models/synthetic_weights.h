// Weights made from a seed, tensor by tensor when asked for and never kept: models of any size for
// measuring time and memory. They say nothing about quality.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/weight_source.h"

namespace gptqb {

// Every tensor is drawn on the device that asks for it, from a stream of its own that seed and name
// decide, so that any order of asking gives the same model (on one kind of device: a CPU and a GPU
// draw different numbers). Sizes are those of a model at the start of its training, so that
// activations stay finite at any depth; norms and the producers of later inputs scale some features
// far above others, as trained models do, so that Hessians are as ill-conditioned as real ones.
class SyntheticWeights : public WeightSource {
 public:
  // `packed`: linears of blocks are codes with scales that give weights of the same size as dense
  // ones, and of mean zero. Codes are drawn on the host, the same for every device.
  SyntheticWeights(uint64_t seed, std::string name, std::optional<QuantConfig> packed)
      : seed_(seed), name_(std::move(name)), packed_(packed) {}

  void bind(const TensorTable& table) override;
  const std::vector<std::string>& names() const override { return names_; }
  bool has(const std::string& name) const override { return shapes_.contains(name); }
  std::vector<int64_t> shape(const std::string& name) const override { return shapes_.at(name); }
  at::ScalarType dtype(const std::string&) const override { return at::kHalf; }
  at::Tensor load(const std::string& name, at::ScalarType dtype, at::Device device) override;
  // On a GPU they are made there: other numbers than on the host, in less time than a copy takes.
  bool reads_ahead(at::Device device) const override { return device.is_cpu(); }
  bool mapped() const override { return false; }
  void rest(const std::string&) override {}
  at::Tensor rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                  at::Device device) override;
  // Asked of a tied head and its embedding only: the head is then never drawn.
  bool same(const std::string&, const std::string&) const override { return true; }
  PackedShare packed_share() const override;
  std::optional<QuantConfig> packed_as(const std::string& name) const override;
  QuantizedLinear unpack(const std::string& name) const override;
  std::string where() const override { return "synthetic " + name_; }
  std::string describe(const std::string& name) const override;
  std::string fingerprint() const override;

 private:
  // The standard deviation of a linear's weights, but for the sizes of a producer's features.
  double weight_size(const std::string& name) const;

  uint64_t seed_;
  std::string name_;
  std::optional<QuantConfig> packed_;
  int64_t blocks_ = 1;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::set<std::string> linears_;  // of blocks
  std::vector<std::string> names_;
  // The embedding is asked for by rows, again and again.
  std::map<std::string, at::Tensor> tables_;
};

}  // namespace gptqb
