#include "models/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "common/error.h"
#include "common/text.h"
#include "models/forward_ops.h"

namespace gptqb {
namespace {

using Scaling = RotaryConfig::Scaling;

Scaling scaling_by_name(const std::string& name, const std::string& where) {
  if (name == "default") return Scaling::kNone;
  if (name == "linear") return Scaling::kLinear;
  if (name == "dynamic") return Scaling::kDynamic;
  if (name == "llama3") return Scaling::kLlama3;
  if (name == "yarn") return Scaling::kYarn;
  throw Error(where, "rotary scaling: " +
                         unknown_name(name, {"default", "linear", "dynamic", "llama3", "yarn"}));
}

double positive(const ConfigReader& section, const std::string& key) {
  const double value = section.number(key);
  if (!(value > 0) || !std::isfinite(value))
    throw Error(section.where(),
                "expected a number above 0 as '" + key + "', got " + std::to_string(value));
  return value;
}

// Yarn's factor on cosines and sines (Peng et al. 2023, section 3.4).
double yarn_magnitude(double scale, double weight) {
  return scale <= 1 ? 1.0 : 0.1 * weight * std::log(scale) + 1.0;
}

void read_yarn(const ConfigReader& section, RotaryConfig& rotary) {
  rotary.original_positions = section.size("original_max_position_embeddings");
  rotary.beta_fast = section.number("beta_fast", 32.0);
  rotary.beta_slow = section.number("beta_slow", 1.0);
  rotary.truncate = section.flag("truncate", true);
  const double mscale = section.number("mscale", 0.0);
  const double mscale_all = section.number("mscale_all_dim", 0.0);
  if (section.has("attention_factor"))
    rotary.attention_factor = positive(section, "attention_factor");
  else if (mscale != 0 && mscale_all != 0)
    rotary.attention_factor =
        yarn_magnitude(rotary.factor, mscale) / yarn_magnitude(rotary.factor, mscale_all);
  else
    rotary.attention_factor = yarn_magnitude(rotary.factor, 1.0);
}

// theta^(2i / head_dim), f32.
at::Tensor periods(double theta, int64_t head_dim) {
  const at::Tensor exponents =
      at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  return at::pow(at::Scalar(theta), exponents);
}

at::Tensor llama3_frequencies(const RotaryConfig& config, const at::Tensor& plain) {
  const auto original = static_cast<double>(config.original_positions);
  const at::Tensor wavelength = 2 * std::numbers::pi / plain;
  const at::Tensor is_long = wavelength > original / config.low_freq_factor;
  const at::Tensor is_short = wavelength < original / config.high_freq_factor;
  const at::Tensor scaled = at::where(is_long, plain / config.factor, plain);
  const at::Tensor smooth = (original / wavelength - config.low_freq_factor) /
                            (config.high_freq_factor - config.low_freq_factor);
  const at::Tensor between = (1 - smooth) * scaled / config.factor + smooth * scaled;
  return at::where(is_long | is_short, scaled, between);
}

at::Tensor yarn_frequencies(const RotaryConfig& config, int64_t head_dim) {
  const auto dim = static_cast<double>(head_dim);
  // The pair that turns `rotations` times over the original positions.
  const auto pair_at = [&](double rotations) {
    return dim *
           std::log(static_cast<double>(config.original_positions) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = pair_at(config.beta_fast);
  double high = pair_at(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;  // as transformers keeps the ramp from dividing by 0
  const at::Tensor period = periods(config.theta, head_dim);
  const at::Tensor ramp =
      at::clamp((at::arange(head_dim / 2, at::kFloat) - low) / (high - low), 0, 1);
  const at::Tensor keep = 1 - ramp;
  return (1.0 / (config.factor * period)) * (1 - keep) + (1.0 / period) * keep;
}

}  // namespace

RotaryConfig read_rotary_config(const ConfigReader& config, int64_t max_positions) {
  RotaryConfig rotary;
  std::optional<ConfigReader> section = config.section("rope_parameters");
  const std::optional<ConfigReader> old_style = config.section("rope_scaling");
  if (section && old_style)
    throw Error(config.where(), "expected either 'rope_parameters' or 'rope_scaling', got both");
  if (!section) section = old_style;
  rotary.theta = config.has("rope_theta") ? positive(config, "rope_theta") : rotary.theta;
  if (!section) return rotary;

  for (const auto& [key, value] : section->object().items())
    if (value.is_object())
      throw Error(
          section->where(),
          "expected one set of rotary parameters for all layers, got one for '" + key + "'");
  if (section->has("rope_theta")) rotary.theta = positive(*section, "rope_theta");
  section->require("partial_rotary_factor", 1.0,
                   "It changes the result, and this program does not compute it.");
  rotary.scaling = scaling_by_name(section->text("rope_type", section->text("type", "default")),
                                   section->where());
  if (rotary.scaling == Scaling::kNone) return rotary;

  rotary.factor = positive(*section, "factor");
  if (rotary.scaling == Scaling::kYarn) {
    read_yarn(*section, rotary);
  } else if (rotary.scaling == Scaling::kLlama3) {
    rotary.low_freq_factor = positive(*section, "low_freq_factor");
    rotary.high_freq_factor = positive(*section, "high_freq_factor");
    if (rotary.high_freq_factor <= rotary.low_freq_factor)
      throw Error(section->where(), "expected high_freq_factor above low_freq_factor");
    rotary.original_positions = section->size("original_max_position_embeddings", max_positions);
  }
  return rotary;
}

at::Tensor inverse_frequencies(const RotaryConfig& config, int64_t head_dim) {
  if (config.scaling == Scaling::kYarn) return yarn_frequencies(config, head_dim);
  const at::Tensor plain = 1.0 / periods(config.theta, head_dim);
  if (config.scaling == Scaling::kLinear) return plain / config.factor;
  if (config.scaling == Scaling::kLlama3) return llama3_frequencies(config, plain);
  return plain;
}

RotaryTable::RotaryTable(const RotaryConfig& config, int64_t head_dim, at::ScalarType dtype,
                         at::Device device)
    : config_(config),
      frequencies_(inverse_frequencies(config, head_dim).to(device)),
      options_(at::TensorOptions().dtype(dtype).device(device)) {}

void RotaryTable::grow(int64_t positions) {
  // On the model's device: sines of a GPU and a CPU differ in the last place, and so would codes.
  const at::Tensor angles = at::outer(at::arange(positions, frequencies_.options()), frequencies_);
  cosines_ = (angles.cos() * config_.attention_factor).to(options_);
  sines_ = (angles.sin() * config_.attention_factor).to(options_);
}

at::Tensor RotaryTable::rotate(const at::Tensor& x) {
  const int64_t seqlen = x.size(1);
  if (!cosines_.defined() || cosines_.size(0) < seqlen) grow(seqlen);
  return rotate_pairs(x, cosines_.narrow(0, 0, seqlen), sines_.narrow(0, 0, seqlen));
}

std::pair<at::Tensor, at::Tensor> RotaryTable::turns_at(const at::Tensor& positions,
                                                        int64_t bound) {
  if (!cosines_.defined() || cosines_.size(0) < bound) grow(bound);
  return {cosines_.index_select(0, positions), sines_.index_select(0, positions)};
}

}  // namespace gptqb
