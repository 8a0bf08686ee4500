#include "models/packed_linears.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "models/bit_fields.h"
#include "models/compressed_tensors.h"
#include "models/gptq_tensors.h"
#include "models/message_text.h"
#include "models/packed_checks.h"

namespace gptqb {
namespace {

constexpr std::array kGptqParts = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::array kCompressedParts = {"weight_packed", "weight_scale", "weight_zero_point",
                                         "weight_shape", "weight_g_idx"};
constexpr size_t kLayersLookedAt = 64;

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.qweight"; "" if it ends otherwise.
std::string layer_of(const std::string& tensor, const char* part) {
  const std::string end = std::string(".") + part;
  return tensor.ends_with(end) ? tensor.substr(0, tensor.size() - end.size()) : "";
}

// Whether all numbers of `zeros` (qzeros of `out` rows) are `value`.
bool all_are(const at::Tensor& zeros, int64_t bits, int64_t out, int64_t value) {
  return unpack_fields(zeros.contiguous(), bits, out).eq(value).all().item<bool>();
}

}  // namespace

PackedLinears::PackedLinears(const TensorReader& tensors, std::optional<PackedConfig> config,
                             const std::string& checkpoint_format)
    : tensors_(tensors), config_(std::move(config)) {
  find_layers();
  const std::string folder = tensors_.folder().string();
  if (layers_.empty()) {
    if (config_)
      throw Error(folder, "expected packed tensors (qweight or weight_packed), as " +
                              config_->where +
                              " says, got none. Remove that if the folder is dense: some tools "
                              "leave it behind when they dequantize");
    if (checkpoint_format != "auto")
      throw Error(folder, "expected packed tensors for model.checkpoint_format: " +
                              checkpoint_format + ", got a dense folder. Leave the key out");
    return;
  }
  const bool compressed = format_ == PackedFormat::kCompressedTensors;
  const auto expect = [&](bool wanted, const std::string& who) {
    if (wanted != compressed)
      throw Error(folder, std::string("expected ") + (wanted ? "weight_packed" : "qweight") +
                              " tensors, as " + who + " says, got " +
                              (compressed ? "weight_packed" : "qweight"));
  };
  if (config_) expect(config_->format == PackedFormat::kCompressedTensors, config_->where);
  if (checkpoint_format != "auto")
    expect(checkpoint_format == "compressed-tensors", "model.checkpoint_format");
  if (compressed && !config_)
    throw Error(folder,
                "expected a quantization_config in config.json, which says how many bits "
                "the codes of compressed-tensors have, got none");
  if (!compressed) choose_zero_points(checkpoint_format);
}

void PackedLinears::find_layers() {
  std::string gptq, compressed;
  for (const std::string& name : tensors_.names()) {
    if (std::string layer = layer_of(name, kGptqParts[0]); !layer.empty())
      layers_.insert(gptq = std::move(layer));
    if (std::string layer = layer_of(name, kCompressedParts[0]); !layer.empty())
      layers_.insert(compressed = std::move(layer));
  }
  if (!gptq.empty() && !compressed.empty())
    throw Error(tensors_.folder().string(),
                "expected packed tensors of one format, got qweight of " + gptq +
                    " and weight_packed of " + compressed);
  if (!compressed.empty()) format_ = PackedFormat::kCompressedTensors;
}

void PackedLinears::choose_zero_points(const std::string& checkpoint_format) {
  const std::string folder = tensors_.folder().string();
  const std::string way_out = ". If it answers nonsense, set model.checkpoint_format";
  if (checkpoint_format != "auto") {
    format_ = checkpoint_format == "gptq" ? PackedFormat::kGptq : PackedFormat::kGptqV2;
    if (const auto by_values = format_by_values(); by_values && *by_values != format_)
      notes_.push_back(
          folder + " is read as " + checkpoint_format +
          ", as model.checkpoint_format says, but its symmetric zero points are stored "
          "as in " +
          format_name(*by_values));
    return;
  }
  const bool labelled = config_ && config_->labelled;
  format_ = labelled ? config_->format : PackedFormat::kGptq;
  if (const auto by_values = format_by_values()) {
    if (labelled && *by_values != format_) {
      wrong_label_ = format_;
      notes_.push_back(folder + " is labelled " + format_name(format_) +
                       ", but its symmetric zero points are stored as in " +
                       format_name(*by_values) + ": read as " + format_name(*by_values));
    }
    format_ = *by_values;
  } else if (!labelled) {
    notes_.push_back(folder +
                     " names no checkpoint format and its zero points do not tell: read "
                     "as gptq" +
                     way_out + ": gptq_v2");
  }
}

std::optional<PackedFormat> PackedLinears::format_by_values() const {
  bool plain = true, less_one = true;
  const size_t step = std::max<size_t>(1, layers_.size() / kLayersLookedAt);
  size_t position = 0;
  for (const std::string& layer : layers_) {
    if (position++ % step != 0) continue;
    if (!tensors_.has(layer + ".qzeros") || !tensors_.has(layer + ".scales")) return std::nullopt;
    const auto& scales = shape(layer, "scales");
    const auto& zeros = shape(layer, "qzeros");
    if (scales.size() != 2 || zeros.size() != 2 || scales[1] < 1) return std::nullopt;
    // Without a configuration: words of a row of zero points say it, if rows are not odd.
    const auto said = config_ ? config_->layer(layer) : std::nullopt;
    const int64_t bits = said ? said->bits : 32 * zeros[1] / scales[1];
    const bool known = bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (!known || zeros[1] != words_of(scales[1], bits)) return std::nullopt;
    const at::Tensor stored = part(layer, "qzeros");
    if (stored.scalar_type() != at::kInt) return std::nullopt;
    const int64_t middle = int64_t{1} << (bits - 1);
    plain = plain && all_are(stored, bits, scales[1], middle);
    less_one = less_one && all_are(stored, bits, scales[1], middle - 1);
    if (!plain && !less_one) return std::nullopt;
  }
  return plain ? PackedFormat::kGptqV2 : PackedFormat::kGptq;
}

std::vector<std::string> PackedLinears::tensors_of(const std::string& layer) const {
  std::vector<std::string> names;
  const auto add = [&](const auto& parts) {
    for (const char* part : parts)
      if (tensors_.has(layer + "." + part)) names.push_back(layer + "." + part);
  };
  if (format_ == PackedFormat::kCompressedTensors)
    add(kCompressedParts);
  else
    add(kGptqParts);
  return names;
}

std::pair<int64_t, int64_t> PackedLinears::sizes_of(const std::string& layer) const {
  if (format_ == PackedFormat::kCompressedTensors) {
    const at::Tensor said = part(layer, "weight_shape");
    if (said.defined() && said.numel() == 2)
      return {said[0].item<int64_t>(), said[1].item<int64_t>()};
  } else if (tensors_.has(layer + ".scales") && shape(layer, "scales").size() == 2) {
    const int64_t out = shape(layer, "scales")[1];
    if (tensors_.has(layer + ".g_idx") && shape(layer, "g_idx").size() == 1)
      return {out, shape(layer, "g_idx")[0]};
    const auto said = config_ ? config_->layer(layer) : std::nullopt;
    const auto& words = shape(layer, "qweight");
    if (said && words.size() == 2) return {out, 32 * words[0] / said->bits};
  }
  throw Error(
      tensors_.folder().string() + ", " + layer,
      "expected tensors that tell the layer's sizes (scales and g_idx, or weight_shape), got "
      "none");
}

const std::vector<int64_t>& PackedLinears::shape(const std::string& layer, const char* part) const {
  return tensors_.info(layer + "." + part).shape;
}

at::Tensor PackedLinears::part(const std::string& layer, const char* name) const {
  const std::string full = layer + "." + name;
  return tensors_.has(full) ? tensors_.view(full) : at::Tensor();
}

PackedLayer PackedLinears::inferred(const std::string& layer, int64_t in) const {
  const std::string where = tensors_.describe(layer + ".qweight");
  const auto& words = shape(layer, "qweight");
  const auto& scales = shape(layer, "scales");
  PackedLayer result{.format = format_};
  for (const int64_t bits : {2, 3, 4, 8})
    if (words.size() == 2 && words[0] == words_of(in, bits)) result.bits = bits;
  const int64_t groups = scales.empty() ? 0 : scales[0];
  if (groups < 1 || words.size() != 2 || words[0] != words_of(in, result.bits))
    throw Error(where, "expected 2, 3, 4 or 8 bits for each of " + std::to_string(in) +
                           " inputs, got shape " + shape_text(words));
  if (groups == 1) return result;
  if (in % groups != 0)
    throw Error(where, "expected a group size, which does not follow from " +
                           std::to_string(groups) + " groups of " + std::to_string(in) +
                           " inputs. Put a quantize_config.json into the folder");
  result.group_size = in / groups;
  return result;
}

PackedLayer PackedLinears::stored_as(const std::string& layer, int64_t in) const {
  if (!config_) return inferred(layer, in);
  auto said = config_->layer(layer);
  if (!said)
    throw Error(tensors_.describe(tensors_of(layer).front()), "expected a dense weight, as " +
                                                                  config_->where + " says of " +
                                                                  layer + ", got a packed one");
  said->format = format_;
  return *said;
}

PackedLayer PackedLinears::layout(const std::string& layer, int64_t out, int64_t in) const {
  const PackedLayer stored = stored_as(layer, in);
  for (const PackedPart& part : packed_parts(stored, out, in)) {
    const std::string name = layer + "." + part.name;
    if (tensors_.has(name)) {
      const TensorInfo& info = tensors_.info(name);
      check_part(part, info.shape, info.dtype, tensors_.describe(name));
    } else if (!part.optional) {
      throw Error(tensors_.folder().string(),
                  "expected tensors that the checkpoint lacks: " + name);
    }
  }
  return stored;
}

QuantizedLinear PackedLinears::unpack(const std::string& layer, int64_t out, int64_t in) const {
  const PackedLayer stored = layout(layer, out, in);
  const std::string where = tensors_.folder().string() + ", " + layer;
  if (stored.format == PackedFormat::kCompressedTensors)
    return unpack_compressed({.weight_packed = part(layer, "weight_packed"),
                              .weight_scale = part(layer, "weight_scale"),
                              .weight_zero_point = part(layer, "weight_zero_point"),
                              .weight_shape = part(layer, "weight_shape"),
                              .weight_g_idx = part(layer, "weight_g_idx")},
                             stored, out, in, where);
  return unpack_gptq({.qweight = part(layer, "qweight"),
                      .qzeros = part(layer, "qzeros"),
                      .scales = part(layer, "scales"),
                      .g_idx = part(layer, "g_idx")},
                     stored, out, in, where);
}

int64_t PackedLinears::stored_bytes(const std::string& layer) const {
  int64_t bytes = 0;
  for (const std::string& name : tensors_of(layer)) {
    const TensorInfo& info = tensors_.info(name);
    bytes += static_cast<int64_t>(info.end - info.begin);
  }
  return bytes;
}

at::ScalarType PackedLinears::scale_dtype(const std::string& layer) const {
  const bool compressed = format_ == PackedFormat::kCompressedTensors;
  return tensors_.info(layer + (compressed ? ".weight_scale" : ".scales")).dtype;
}

}  // namespace gptqb
