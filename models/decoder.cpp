#include "models/decoder.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "models/message_text.h"

namespace gptqb {
namespace {

const std::map<std::string, at::ScalarType>& model_dtypes() {
  static const std::map<std::string, at::ScalarType> dtypes = {
      {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}, {"float32", at::kFloat}};
  return dtypes;
}

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& [name, type] : model_dtypes())
    if (type == dtype) return name;
  return at::toString(dtype);
}

// `auto` is what transformers' "auto" is: the config's dtype, else the one all tensors share.
at::ScalarType resolve_dtype(const ModelSource& source, const WeightSource& weights) {
  const bool automatic = source.options.dtype == "auto";
  const std::string name = automatic ? source.identity.dtype.value_or("") : source.options.dtype;
  if (!name.empty()) {
    const auto found = model_dtypes().find(name);
    if (found != model_dtypes().end()) return found->second;
    throw Error(automatic ? source.config.where() + ", dtype" : "model.dtype",
                unknown_name(name, {"auto", "float16", "bfloat16", "float32"}));
  }
  std::optional<at::ScalarType> shared;
  for (const std::string& tensor : weights.names()) {
    const at::ScalarType dtype = weights.dtype(tensor);
    if (shared && *shared != dtype)
      throw Error(weights.where(),
                  "expected one dtype in all tensors or 'dtype' in config.json, got " +
                      dtype_name(*shared) + " and " + dtype_name(dtype) +
                      ". Choose one: model.dtype.");
    shared = dtype;
  }
  return shared.value_or(at::kFloat);
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// "lm_head" of "lm_head.weight".
std::string without_weight(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

void check_shape(const std::string& layer, const LinearReplacement& replacement, int64_t rows,
                 int64_t columns) {
  if (replacement.out_features() == rows && replacement.in_features() == columns) return;
  throw Error(layer, "expected codes of shape " + std::to_string(rows) + " x " +
                         std::to_string(columns) + ", got " +
                         std::to_string(replacement.out_features()) + " x " +
                         std::to_string(replacement.in_features()));
}

std::unique_ptr<WeightSource> bound(std::unique_ptr<WeightSource> weights,
                                    const TensorTable& table) {
  weights->bind(table);
  return weights;
}

}  // namespace

void DecoderFacts::add(const std::string& name, std::vector<int64_t> shape) {
  table.specs.push_back({name, std::move(shape)});
}

void DecoderFacts::add_norm(const std::string& name, int64_t width) {
  add(name + ".weight", {width});
  add(name + ".bias", {width});
}

void DecoderFacts::add_linear(const std::string& name, int64_t out, int64_t in, bool bias) {
  add(block_prefix + "{}." + name + ".weight", {out, in});
  if (bias) add(block_prefix + "{}." + name + ".bias", {out});
}

void DecoderFacts::add_head(int64_t width) {
  table.specs.push_back({head, {vocab_size, width}, true});
}

Decoder::Decoder(ModelSource source, DecoderFacts facts)
    : facts_(std::move(facts)),
      weights_(bound(std::move(source.weights), facts_.table)),
      bos_token_id_(source.config.token_id("bos_token_id")),
      eos_token_id_(source.config.token_id("eos_token_id")),
      device_(source.options.device),
      dtype_(resolve_dtype(source, *weights_)),
      reads_ahead_(source.options.read_ahead && weights_->reads_ahead(device_)) {
  if (facts_.tied_head)
    check_tied_head();
  else if (!weights_->has(facts_.head))
    throw Error(weights_->where(),
                "expected tensors that the checkpoint lacks: " + facts_.head +
                    " (tie_word_embeddings is false, so the head is a tensor of its own)");
  if (source.options.backend == "packed") products_ = checked_products();
}

std::unique_ptr<PackedProducts> Decoder::checked_products() const {
  if (weights_->packed_share().weights == 0)
    throw Error(
        weights_->where(),
        "expected a packed checkpoint for model.backend packed, got dense weights. Write one "
        "with `gptq-bench quantize`, or leave the key out");
  auto products = std::make_unique<PackedProducts>(device_, dtype_);
  for (const Stage& stage : facts_.stages)
    for (const std::string& linear : stage.linears)
      for (int64_t block = 0; block < block_count(); ++block) {
        const std::string name = block_name(block) + "." + linear + ".weight";
        const auto quant = weights_->packed_as(name);
        if (!quant) continue;
        const auto shape = weights_->shape(name);
        try {
          products->kernel_for(1, shape.at(0), shape.at(1), *quant);
        } catch (const Error& error) {
          throw Error(weights_->describe(name),
                      std::string(error.what()) + ". Use model.backend: dense");
        }
      }
  return products;
}

std::map<std::string, int64_t> Decoder::kernels_run() const {
  return products_ ? products_->launched() : std::map<std::string, int64_t>();
}

PackedLinear Decoder::packed_linear(const std::string& full_name) const {
  try {
    return PackedLinear(weights_->unpack(full_name), products_->layout());
  } catch (const Error& error) {
    throw Error(weights_->describe(full_name),
                std::string(error.what()) + ". Use model.backend: dense");
  }
}

// Some checkpoints carry a copy of the embedding as head. One that differs means that flag or file
// is wrong, and either choice would be a guess.
void Decoder::check_tied_head() const {
  if (!weights_->has(facts_.head) || weights_->same(facts_.head, facts_.embedding)) return;
  throw Error(weights_->describe(facts_.head),
              "expected the same values as '" + facts_.embedding +
                  "' because tie_word_embeddings is true, got others. Set tie_word_embeddings to "
                  "false in config.json if this head is meant to be used, or remove it.");
}

std::string Decoder::block_name(int64_t block) const {
  return facts_.block_prefix + std::to_string(block);
}

int64_t Decoder::parameter_count() const {
  int64_t count = 0;
  for (const std::string& name : weights_->names()) {
    if (facts_.tied_head && name == facts_.head) continue;
    count += elements_of(weights_->shape(name));
  }
  // An untied head is a second tensor of the embedding's shape.
  if (facts_.tied_head && !tied()) count += elements_of(extras().head_shape);
  return count;
}

std::vector<std::string> Decoder::tensor_names() const {
  std::vector<std::string> names = weights_->names();
  if (facts_.tied_head) std::erase(names, facts_.head);
  return names;
}

at::Tensor Decoder::tensor(const std::string& name) {
  const auto divided = divided_.find(name);
  return divided != divided_.end() ? divided->second : weights_->load(name, dtype_, at::kCPU);
}

ModelSizes Decoder::sizes() const {
  ModelSizes sizes{.blocks = block_count(),
                   .element_bytes = static_cast<int64_t>(c10::elementSize(dtype_)),
                   .block_tensors = {},
                   .stages = {},
                   .end_elements = 0,
                   .head_elements = 0,
                   .vocabulary = vocab_size(),
                   .activation_copies = facts_.activation_copies,
                   .scores_at_once = facts_.scores_at_once,
                   .fused_attention_features = facts_.fused_attention_features,
                   .heads = facts_.heads,
                   .mapped = weights_->mapped()};
  for (const TensorSpec& spec : facts_.table.specs) {
    if (spec.name.starts_with(facts_.block_prefix + "{}."))
      sizes.block_tensors.push_back(elements_of(spec.shape));
    else if (!facts_.tied_head || spec.name != facts_.head)
      sizes.end_elements += elements_of(spec.shape);
    if (!facts_.tied_head && spec.name == facts_.head)
      sizes.head_elements = elements_of(spec.shape);
  }
  for (const Stage& stage : facts_.stages) {
    ModelSizes::Stage& widths = sizes.stages.emplace_back();
    for (const std::string& linear : stage.linears) {
      const auto shape = weights_->shape(block_name(0) + "." + linear + ".weight");
      widths.in = shape.at(1);
      widths.outs.push_back(shape.at(0));
    }
  }
  return sizes;
}

std::vector<std::pair<std::string, std::string>> Decoder::names_of_block(int64_t block) const {
  const std::string pattern_prefix = facts_.block_prefix + "{}.";
  std::vector<std::pair<std::string, std::string>> names;
  for (const TensorSpec& spec : facts_.table.specs)
    if (spec.name.starts_with(pattern_prefix))
      names.emplace_back(spec.name.substr(pattern_prefix.size()), tensor_name(spec.name, block));
  return names;
}

bool Decoder::as_loaded(int64_t block, const std::string& name,
                        const std::string& full_name) const {
  return !divided_.contains(full_name) &&
         !(name.ends_with(".weight") && replaced_.has(block, without_weight(name)));
}

void Decoder::load_block(int64_t block) {
  if (block < 0 || block >= block_count())
    throw Error("load_block", "expected a block in 0 .. " + std::to_string(block_count() - 1) +
                                  ", got " + std::to_string(block));
  if (block == loaded_block_) return;
  if (!held_.empty()) {
    put_back();
    take_held(block);
    return;
  }
  auto read = ahead_.take(block);
  release_block();
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, at::Tensor> loaded;
  for (const auto& [linear, kept] : replaced_.of_block(block)) {
    const LinearReplacement on_device = kept.replacement(device_);
    loaded[linear + ".weight"] = on_device.effective_weights(dtype_);
    if (const auto* int8 = std::get_if<Int8Linear>(&on_device.form)) block_int8_[linear] = *int8;
  }
  for (const auto& [name, full_name] : names_of_block(block)) {
    if (const auto divided = divided_.find(full_name); divided != divided_.end())
      loaded[name] = divided->second.to(device_);
    else if (const auto ahead = read.find(full_name); ahead != read.end()) {
      if (const auto* tensor = std::get_if<at::Tensor>(&ahead->second))
        loaded[name] = tensor->to(device_, /*non_blocking=*/true);
      else
        block_packed_.emplace(without_weight(name),
                              std::get<PackedLinear>(ahead->second).to(device_));
    } else if (loaded.contains(name))
      continue;
    else if (by_kernel(full_name))
      block_packed_.emplace(without_weight(name), packed_linear(full_name).to(device_));
    else
      loaded[name] = load_to_device(full_name);
  }
  read_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  block_ = std::move(loaded);
  loaded_block_ = block;
  if (reads_ahead_ && block + 1 < block_count()) read_ahead(block + 1);
}

// On a GPU the file's pages have done their work by then.
at::Tensor Decoder::load_to_device(const std::string& name) {
  at::Tensor tensor = weights_->load(name, dtype_, device_);
  if (!device_.is_cpu()) weights_->rest(name);
  return tensor;
}

// Into pinned memory where the device is a GPU: the copy to it then needs no detour.
void Decoder::read_ahead(int64_t block) {
  std::vector<std::string> names;
  for (const auto& [name, full_name] : names_of_block(block))
    if (as_loaded(block, name, full_name)) names.push_back(full_name);
  ahead_.start(block, std::move(names), [this](const std::string& name) -> ReadAhead::Weight {
    if (by_kernel(name)) return packed_linear(name);
    const at::Tensor tensor = weights_->load(name, dtype_, at::kCPU);
    if (device_.is_cpu()) return tensor;
    const at::Tensor pinned =
        at::empty(tensor.sizes(), tensor.options().pinned_memory(true)).copy_(tensor);
    weights_->rest(name);
    return pinned;
  });
}

void Decoder::release_block() {
  if (!held_.empty()) return put_back();
  ahead_.drop();
  block_.clear();
  block_int8_.clear();
  block_packed_.clear();
  if (loaded_block_ >= 0)
    for (const auto& [name, full_name] : names_of_block(loaded_block_)) weights_->rest(full_name);
  loaded_block_ = -1;
  // Weights that another thread allocated leave holes where this one does not look: a block's worth
  // of them each time.
  if (device_.is_cpu()) ::malloc_trim(0);
}

const at::Tensor& Decoder::block_tensor(const std::string& name) const {
  static const at::Tensor kNone;
  if (loaded_block_ < 0)
    throw Error("model", "expected a loaded block, got none. Call load_block first.");
  const auto found = block_.find(name);
  return found == block_.end() ? kNone : found->second;
}

at::Tensor Decoder::weight(const std::string& linear) const {
  place_of(linear);  // there must be such a linear
  const std::string name = linear + ".weight";
  const at::Tensor& found = block_tensor(name);
  if (found.defined()) return found;
  return weights_->load(block_name(loaded_block_) + "." + name, dtype_, device_);
}

void Decoder::replace(const std::string& linear, const LinearReplacement& replacement) {
  take_apart(linear);
  const at::Tensor current = weight(linear);
  const std::string layer = block_name(loaded_block_) + "." + linear;
  check_shape(layer, replacement, current.size(0), current.size(1));
  block_int8_.erase(linear);
  block_packed_.erase(linear);
  if (const auto* int8 = std::get_if<Int8Linear>(&replacement.form))
    block_int8_[linear] = int8->to(device_);
  block_[linear + ".weight"] = replacement.to(device_).effective_weights(dtype_);
  replaced_.put(loaded_block_, linear, replacement);
}

void Decoder::divide_output(const std::string& producer, const at::Tensor& scale) {
  take_apart(producer);
  const at::Tensor divisor = scale.to(device_, dtype_);
  const auto& stages = facts_.stages;
  const bool is_linear = std::any_of(stages.begin(), stages.end(), [&](const Stage& stage) {
    return std::count(stage.linears.begin(), stage.linears.end(), producer) > 0;
  });
  bool has_tensors = false;
  for (const std::string& name : {producer + ".weight", producer + ".bias"}) {
    const at::Tensor& current = block_tensor(name);
    if (!current.defined()) continue;
    has_tensors = true;
    if (is_linear && name == producer + ".weight") continue;
    const at::Tensor divided = current / divisor;
    divided_[block_name(loaded_block_) + "." + name] = divided.to(at::kCPU);
    block_[name] = divided;
  }
  if (!has_tensors) divisors_[block_name(loaded_block_) + "." + producer] = divisor;
}

void Decoder::apply_divisor(const std::string& name, at::Tensor& activation) const {
  const auto found = divisors_.find(block_name(loaded_block_) + "." + name);
  if (found != divisors_.end()) activation.div_(found->second);
}

void Decoder::try_weights(const std::string& linear, const at::Tensor& weights) {
  take_apart(linear);
  const at::Tensor current = weight(linear);
  if (weights.sizes() != current.sizes())
    throw Error(block_name(loaded_block_) + "." + linear,
                "expected weights of the layer's shape, got another");
  block_int8_.erase(linear);
  block_packed_.erase(linear);
  block_[linear + ".weight"] = weights.to(device_, dtype_);
}

at::Tensor Decoder::linear(const std::string& name, const at::Tensor& x) const {
  const at::Tensor& bias = block_tensor(name + ".bias");
  const auto int8 = block_int8_.find(name);
  if (int8 != block_int8_.end()) return int8_product(x, int8->second, bias);
  const auto packed = block_packed_.find(name);
  if (packed != block_packed_.end()) return products_->product(packed->second, x, bias);
  if (!block_.contains(name + ".weight")) return joined_part(name, x);
  return at::linear(x, block_tensor(name + ".weight"), bias);
}

at::Tensor Decoder::linear_relu(const std::string& name, const at::Tensor& x) const {
  return linear_activated(name, x, /*gelu=*/false);
}

at::Tensor Decoder::linear_gelu(const std::string& name, const at::Tensor& x) const {
  return linear_activated(name, x, /*gelu=*/true);
}

at::Tensor Decoder::linear_activated(const std::string& name, const at::Tensor& x,
                                     bool gelu) const {
  const at::Tensor& bias = block_tensor(name + ".bias");
  if (!x.is_cuda() || !bias.defined() || block_int8_.contains(name) ||
      block_packed_.contains(name)) {
    at::Tensor inner = linear(name, x);
    if (gelu) return at::gelu(inner, "tanh");
    relu_in_place(inner);
    return inner;
  }
  const at::Tensor& weight = block_tensor(name + ".weight");
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return at::_addmm_activation(bias, x.reshape({-1, weight.size(1)}), weight.t(), 1, 1, gelu)
      .view(shape);
}

at::Tensor Decoder::checked_ids(const at::Tensor& ids) const {
  if (ids.dim() != 2 || ids.numel() == 0 || !at::isIntegralType(ids.scalar_type(), false))
    throw Error("embed", "expected whole-number ids [sequences, seqlen], got " +
                             std::to_string(ids.dim()) + " dimensions of " +
                             at::toString(ids.scalar_type()));
  if (ids.size(1) > max_positions())
    throw Error("embed", "expected at most " + std::to_string(max_positions()) +
                             " tokens a sequence (positions of the model), got " +
                             std::to_string(ids.size(1)) + ". Use a smaller seqlen.");
  at::Tensor checked = ids.to(at::kCPU, at::kLong).contiguous();
  const int64_t* values = checked.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < checked.numel(); ++i)
    if (values[i] < 0 || values[i] >= vocab_size())
      throw Error("embed", "expected token ids in 0 .. " + std::to_string(vocab_size() - 1) +
                               ", got " + std::to_string(values[i]) + " at " +
                               index_text(i, checked.sizes().vec()) +
                               ". Tokenizer and model do not belong together.");
  return checked;
}

at::Tensor Decoder::gather_rows(const std::string& name, const at::Tensor& ids) {
  if (name == facts_.embedding && embedding_.defined())
    return at::embedding(embedding_, ids.to(embedding_.device())).to(device_);
  // The whole table is cast only where the head needs it.
  return weights_->rows(name, ids, dtype_, device_);
}

at::Tensor Decoder::device_rows(const std::string& name, const at::Tensor& ids) {
  if (name == facts_.embedding && embedding_.defined()) {
    embedding_ = embedding_.to(device_);
    return at::embedding(embedding_, ids);
  }
  return at::embedding(end_tensor(name), ids);
}

const at::Tensor& Decoder::end_tensor(const std::string& name) {
  const auto found = ends_.find(name);
  if (found != ends_.end()) return found->second;
  return ends_.emplace(name, load_to_device(name)).first->second;
}

ModelExtras Decoder::extras() const {
  const std::string& head = facts_.tied_head ? facts_.embedding : facts_.head;
  return {.embedding = without_weight(facts_.embedding),
          .head = without_weight(facts_.head),
          .embedding_shape = weights_->shape(facts_.embedding),
          .head_shape = weights_->shape(head),
          .tied_head = tied()};
}

at::Tensor Decoder::end_weight(ModelEnd end) {
  const bool head = end == ModelEnd::kHead;
  const at::Tensor& replaced = head ? head_ : embedding_;
  if (replaced.defined()) return replaced.to(at::kCPU);
  return weights_->load(head && !facts_.tied_head ? facts_.head : facts_.embedding, dtype_,
                        at::kCPU);
}

void Decoder::replace_end(ModelEnd end, const LinearReplacement& replacement) {
  const bool head = end == ModelEnd::kHead;
  const ModelExtras names = extras();
  const std::vector<int64_t>& shape = head ? names.head_shape : names.embedding_shape;
  check_shape(head ? names.head : names.embedding, replacement, shape[0], shape[1]);
  const at::Tensor dequantized = replacement.effective_weights(dtype_);
  if (!head) {
    embedding_ = dequantized.to(at::kCPU);
    return;
  }
  head_ = dequantized.to(device_);
  ends_.erase(facts_.tied_head ? facts_.embedding : facts_.head);
}

at::Tensor Decoder::logits(const at::Tensor& hidden) {
  const at::Tensor input = head_input(hidden);
  if (head_.defined()) return at::linear(input, head_);
  // Of a tied head the file's tensor, also where the embedding was replaced.
  return at::linear(input, end_tensor(facts_.tied_head ? facts_.embedding : facts_.head));
}

}  // namespace gptqb
