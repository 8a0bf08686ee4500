#include "models/synthetic_weights.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/hash.h"

namespace gptqb {
namespace {

// What a tensor does in its block, by the words that names of all families share.
enum class Role {
  kShift,     // a bias
  kNorm,      // the scale of a norm, or any other vector
  kTable,     // an embedding
  kProducer,  // a linear whose outputs are another linear's input features
  kResidual,  // a linear that adds to the residual
  kLinear,
};

bool has_word(const std::string& name, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return name.find(word) != std::string::npos; });
}

Role role_of(const std::string& name, size_t dimensions) {
  if (name.ends_with(".bias")) return Role::kShift;
  if (dimensions == 1) return Role::kNorm;
  if (has_word(name, {"embed", "lm_head"})) return Role::kTable;
  if (has_word(name, {"o_proj", "out_proj", "down_proj", "fc2", "attention.dense", "4h_to_h"}))
    return Role::kResidual;
  if (has_word(name, {"v_proj", "up_proj", "fc1", "h_to_4h"})) return Role::kProducer;
  return Role::kLinear;
}

// A few features far above the rest: log-normal sizes around 1.
at::Tensor feature_sizes(int64_t count, at::Generator& generator, at::Device device) {
  return at::randn({count}, generator, at::TensorOptions().dtype(at::kFloat).device(device))
      .mul_(0.8)
      .exp_();
}

// The stream of one tensor: a generator of its own, so that two threads can draw.
at::Generator stream_of(uint64_t seed, const std::string& name, at::Device device) {
  const std::string digest = sha256_hex(std::to_string(seed) + "\n" + name);
  auto generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(std::stoull(digest.substr(0, 12), nullptr, 16));
  return generator;
}

}  // namespace

void SyntheticWeights::bind(const TensorTable& table) {
  blocks_ = std::max<int64_t>(1, table.blocks);
  for (const TensorSpec& spec : table.specs) {
    const bool per_block = spec.name.find("{}") != std::string::npos;
    for (int64_t block = 0; block < (per_block ? table.blocks : 1); ++block) {
      const std::string name = tensor_name(spec.name, block);
      shapes_.emplace(name, spec.shape);
      names_.push_back(name);
    }
  }
}

at::Tensor SyntheticWeights::load(const std::string& name, at::ScalarType dtype,
                                  at::Device device) {
  const auto& shape = shapes_.at(name);
  at::Generator generator = stream_of(seed_, name, device);
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const Role role = role_of(name, shape.size());
  switch (role) {
    case Role::kShift:
      return at::randn(shape, generator, options).mul_(0.01);
    case Role::kNorm:
      return feature_sizes(shape[0], generator, device).to(dtype);
    case Role::kTable:
      // All tokens share a direction, as in trained models.
      return at::randn(shape, generator, options)
          .mul_(0.02)
          .add_((at::randn({shape[1]}, generator, options).mul_(0.02)).unsqueeze(0));
    case Role::kProducer:
    case Role::kResidual:
    case Role::kLinear:
      break;
  }
  double size = 1.0 / std::sqrt(static_cast<double>(shape[1]));
  // Sums over all blocks stay of the size of one.
  if (role == Role::kResidual) size /= std::sqrt(2.0 * static_cast<double>(blocks_));
  auto weights = at::randn(shape, generator, options).mul_(size);
  if (role == Role::kProducer)
    weights.mul_(feature_sizes(shape[0], generator, device).to(dtype).unsqueeze(1));
  return weights;
}

at::Tensor SyntheticWeights::rows(const std::string& name, const at::Tensor& ids,
                                  at::ScalarType dtype, at::Device device) {
  at::Tensor& table = tables_[name];
  if (!table.defined() || table.device() != device || table.scalar_type() != dtype)
    table = load(name, dtype, device);
  return at::embedding(table, ids.to(device));
}

std::string SyntheticWeights::describe(const std::string& name) const {
  return where() + ", tensor '" + name + "'";
}

std::string SyntheticWeights::fingerprint() const {
  std::string text = name_ + "\n" + std::to_string(seed_) + "\n" + std::to_string(blocks_);
  for (const auto& [name, shape] : shapes_)
    for (const int64_t size : shape) text += " " + std::to_string(size);
  return sha256_hex(text);
}

}  // namespace gptqb
