#include "models/synthetic_weights.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/hash.h"
#include "methods/huge_pages.h"
#include "methods/parallel_parts.h"

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

constexpr int64_t kScaleBits = 16;

// A number's bits, mixed (Steele, Lea and Flood 2014, SplitMix64).
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Codes of a symmetric grid with a mean weight of zero, eight at a time: each from its place and
// `seed`, whichever thread draws it. The lowest code, which has no counterpart, becomes the zero
// point: weights that lean to one side add up to more than float16 holds.
void draw_codes(at::Tensor& codes, int64_t bits, uint64_t seed) {
  auto* const out = codes.mutable_data_ptr<uint8_t>();
  const int64_t count = codes.numel();
  const uint64_t mask = 0x0101010101010101U * ((uint64_t{1} << bits) - 1);
  const auto zero = static_cast<uint8_t>(1 << (bits - 1));
  constexpr int64_t kPart = int64_t{1} << 20;
  parallel_parts(count, kPart, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 8) {
      const uint64_t drawn = mixed(seed ^ mixed(static_cast<uint64_t>(i))) & mask;
      std::array<uint8_t, 8> eight;
      std::memcpy(eight.data(), &drawn, eight.size());
      for (uint8_t& code : eight) code = code == 0 ? zero : code;
      std::memcpy(out + i, eight.data(), static_cast<size_t>(std::min<int64_t>(8, end - i)));
    }
  });
}

}  // namespace

void SyntheticWeights::bind(const TensorTable& table) {
  blocks_ = std::max<int64_t>(1, table.blocks);
  for (const TensorSpec& spec : table.specs) {
    const bool per_block = spec.name.find("{}") != std::string::npos;
    for (int64_t block = 0; block < (per_block ? table.blocks : 1); ++block) {
      const std::string name = tensor_name(spec.name, block);
      shapes_.emplace(name, spec.shape);
      if (per_block && spec.shape.size() == 2) linears_.insert(name);
      names_.push_back(name);
    }
  }
}

at::Tensor SyntheticWeights::load(const std::string& name, at::ScalarType dtype,
                                  at::Device device) {
  const auto& shape = shapes_.at(name);
  if (packed_as(name)) return unpack(name).dequantize(dtype).to(device);
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
  auto weights = at::randn(shape, generator, options).mul_(weight_size(name));
  if (role == Role::kProducer)
    weights.mul_(feature_sizes(shape[0], generator, device).to(dtype).unsqueeze(1));
  return weights;
}

double SyntheticWeights::weight_size(const std::string& name) const {
  const auto& shape = shapes_.at(name);
  const double size = 1.0 / std::sqrt(static_cast<double>(shape[1]));
  // Sums over all blocks stay of the size of one.
  const bool adds = role_of(name, shape.size()) == Role::kResidual;
  return adds ? size / std::sqrt(2.0 * static_cast<double>(blocks_)) : size;
}

PackedShare SyntheticWeights::packed_share() const {
  PackedShare share;
  if (!packed_) return share;
  for (const std::string& name : linears_) {
    const auto& shape = shapes_.at(name);
    share.weights += shape[0] * shape[1];
    share.bits += shape[0] * (shape[1] * packed_->bits + packed_->groups(shape[1]) * kScaleBits);
  }
  return share;
}

std::optional<QuantConfig> SyntheticWeights::packed_as(const std::string& name) const {
  return linears_.contains(name) ? packed_ : std::nullopt;
}

QuantizedLinear SyntheticWeights::unpack(const std::string& name) const {
  const QuantConfig quant = packed_.value();
  const auto& shape = shapes_.at(name);
  const int64_t groups = quant.groups(shape[1]);
  at::Generator generator = stream_of(seed_, name, at::kCPU);
  QuantizedLinear linear;
  linear.bits = quant.bits;
  linear.group_size = quant.group_size;
  linear.codes = empty_in_huge_pages(shape, at::kByte);
  draw_codes(linear.codes, quant.bits, generator.current_seed());
  linear.zeros = at::full({shape[0], groups}, int64_t{1} << (quant.bits - 1), at::kByte);
  // Of -(h - 1) .. h - 1, 0 twice as often as each other.
  const auto half = static_cast<double>(int64_t{1} << (quant.bits - 1));
  const double deviation = std::sqrt((half - 1) * (2 * half - 1) / 6);
  linear.scales =
      at::full({shape[0], groups}, weight_size(name) / deviation, at::TensorOptions(at::kFloat));
  if (role_of(name, shape.size()) == Role::kProducer)
    linear.scales.mul_(feature_sizes(shape[0], generator, at::kCPU).unsqueeze(1));
  // As a checkpoint has them.
  linear.scales = linear.scales.to(at::kHalf).to(at::kFloat);
  return linear;
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
  if (packed_)
    text += "\n" + std::to_string(packed_->bits) + " " + std::to_string(packed_->group_size);
  return sha256_hex(text);
}

}  // namespace gptqb
