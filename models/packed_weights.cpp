#include "models/packed_weights.h"

#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/hash.h"
#include "models/message_text.h"

namespace gptqb {

void PackedWeights::bind(const TensorTable& table) {
  MatchedTensors matched = match_tensors(table, tensors_, &linears_);
  in_files_ = std::move(matched.dense);
  packed_ = std::move(matched.packed);
  shapes_ = std::move(matched.packed_shapes);
  for (const auto& [name, in_file] : in_files_) names_.push_back(name);
  for (const auto& [name, layer] : packed_) names_.push_back(name);
  notes_ = linears_.notes();
  if (!matched.passed_over.empty())
    notes_.push_back(where() +
                     ": biases of all zeros that the model does not have were left out: " +
                     shorten_list(matched.passed_over));
  note_dense(table);
}

// A folder may leave linears of its blocks dense; numbers of such a model are no packed model's.
void PackedWeights::note_dense(const TensorTable& table) {
  std::vector<std::string> dense;
  for (const TensorSpec& spec : table.specs) {
    if (spec.shape.size() != 2 || spec.name.find("{}") == std::string::npos) continue;
    for (int64_t block = 0; block < table.blocks; ++block)
      if (const std::string name = tensor_name(spec.name, block); !is_packed(name))
        dense.push_back(name);
  }
  if (!dense.empty())
    notes_.push_back(where() + ": " + std::to_string(dense.size()) +
                     " linears of blocks are dense in it: " + shorten_list(dense));
}

bool PackedWeights::has(const std::string& name) const {
  return is_packed(name) || FileWeights::has(name);
}

std::vector<int64_t> PackedWeights::shape(const std::string& name) const {
  return is_packed(name) ? shapes_.at(name) : FileWeights::shape(name);
}

at::ScalarType PackedWeights::dtype(const std::string& name) const {
  return is_packed(name) ? linears_.scale_dtype(packed_.at(name)) : FileWeights::dtype(name);
}

std::optional<QuantConfig> PackedWeights::packed_as(const std::string& name) const {
  const auto found = packed_.find(name);
  if (found == packed_.end()) return std::nullopt;
  const auto& shape = shapes_.at(name);
  const PackedLayer layer = linears_.layout(found->second, shape[0], shape[1]);
  QuantConfig quant;
  quant.bits = layer.bits;
  quant.group_size = layer.group_size;
  quant.symmetric = layer.symmetric;
  return quant;
}

QuantizedLinear PackedWeights::unpack(const std::string& name) const {
  const auto found = packed_.find(name);
  if (found == packed_.end()) return WeightSource::unpack(name);
  const auto& shape = shapes_.at(name);
  return linears_.unpack(found->second, shape[0], shape[1]);
}

at::Tensor PackedWeights::load(const std::string& name, at::ScalarType dtype, at::Device device) {
  if (!is_packed(name)) return FileWeights::load(name, dtype, device);
  const at::Tensor weights = unpack(name).dequantize(dtype);
  if (const int64_t position = first_non_finite(weights); position >= 0)
    throw Error(describe(name),
                "expected weights that fit in the model's dtype, got one beyond it "
                "at " +
                    index_text(position, shapes_.at(name)) + ". Use dtype bfloat16 or float32.");
  return weights.to(device);
}

void PackedWeights::rest(const std::string& name) {
  if (!is_packed(name)) return FileWeights::rest(name);
  for (const std::string& tensor : linears_.tensors_of(packed_.at(name)))
    tensors_.release_pages(tensor);
}

at::Tensor PackedWeights::rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                               at::Device device) {
  if (!is_packed(name)) return FileWeights::rows(name, ids, dtype, device);
  return at::embedding(load(name, dtype, at::kCPU), ids).to(device);
}

// A packed weight is never the dense one it was made from.
bool PackedWeights::same(const std::string& a, const std::string& b) const {
  return a == b || (!is_packed(a) && !is_packed(b) && FileWeights::same(a, b));
}

std::string PackedWeights::describe(const std::string& name) const {
  return is_packed(name) ? tensors_.describe(linears_.tensors_of(packed_.at(name)).front())
                         : FileWeights::describe(name);
}

std::string PackedWeights::fingerprint() const {
  Sha256 hash;
  hash.add(FileWeights::fingerprint());
  for (const char* name : {"quantize_config.json", "quant_config.json"})
    if (const auto path = tensors_.folder() / name; std::filesystem::exists(path))
      hash.add(read_file(path));
  return hash.hex();
}

PackedShare PackedWeights::packed_share() const {
  PackedShare share;
  for (const auto& [name, layer] : packed_) {
    const auto& shape = shapes_.at(name);
    share.weights += shape[0] * shape[1];
    share.bits += 8 * linears_.stored_bytes(layer);
  }
  return share;
}

std::unique_ptr<WeightSource> folder_weights(const std::filesystem::path& folder,
                                             const ConfigReader& config,
                                             const std::string& checkpoint_format) {
  auto packed = read_packed_config(folder, config);
  TensorReader tensors(folder, packed ? packed->file_names : std::vector<std::string>());
  PackedLinears linears(tensors, std::move(packed), checkpoint_format);
  if (linears.empty()) return std::make_unique<FileWeights>(std::move(tensors));
  return std::make_unique<PackedWeights>(std::move(tensors), std::move(linears));
}

}  // namespace gptqb
