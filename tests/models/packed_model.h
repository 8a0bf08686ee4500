// A packed folder for tests: a golden model whose block linears hold random codes, packed by hand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/models/model_folder.h"
#include "tests/support/message.h"
#include "tests/support/slow_packer.h"

namespace gptqb::test {

// Dense, and packed as asked.
class PackedModel {
 public:
  enum class Kind { kV1, kV2, kCompressed };

  explicit PackedModel(Kind kind, RandomCodes codes = {.group_size = 16, .symmetric = true})
      : kind_(kind), dense_("llama_mha"), packed_("llama_mha") {
    codes.least_zero = kind == Kind::kV1 ? 1 : 0;
    const auto original = dense_.tensors;
    for (const auto& [name, tensor] : original)
      if (name.find("_proj.weight") != std::string::npos) pack(name, codes);
    packed_.config["quantization_config"] =
        kind == Kind::kCompressed ? compressed_settings(codes) : gptq_settings(codes);
  }

  // Packs one weight with other settings, or again.
  void pack(const std::string& name, RandomCodes codes) {
    codes.out = dense_.tensors.at(name).size(0);
    codes.in = dense_.tensors.at(name).size(1);
    codes.seed = std::hash<std::string>{}(name);
    const QuantizedLinear linear = codes.make();
    dense_.tensors[name] = linear.dequantize(at::kFloat);
    packed_.tensors.erase(name);
    const std::string layer = name.substr(0, name.size() - std::string("weight").size());
    const auto parts = kind_ == Kind::kCompressed ? slow_compressed(linear, codes.symmetric)
                                                  : slow_gptq(linear, kind_ == Kind::kV1 ? 1 : 0);
    for (const auto& [part, tensor] : parts) packed_.tensors[layer + part] = tensor;
  }
  void leave_dense(const std::string& name) {
    const std::string layer = name.substr(0, name.size() - std::string("weight").size());
    for (const char* part : {"qweight", "qzeros", "scales", "g_idx"})
      packed_.tensors.erase(layer + part);
    packed_.tensors[name] = dense_.tensors.at(name);
  }

  nlohmann::json& settings() { return packed_.config["quantization_config"]; }
  std::map<std::string, at::Tensor>& tensors() { return packed_.tensors; }
  EditedModel& packed() { return packed_; }
  const EditedModel& packed() const { return packed_; }
  EditedModel& dense() { return dense_; }

  std::unique_ptr<CausalLm> open(const std::string& checkpoint_format = "auto") const {
    packed_.write();
    return open_model(packed_.path(), {.dtype = "float32", .checkpoint_format = checkpoint_format});
  }
  std::unique_ptr<CausalLm> open_with(const std::string& backend, const std::string& dtype,
                                      at::Device device = at::kCPU) const {
    packed_.write();
    return open_model(packed_.path(), {.dtype = dtype, .device = device, .backend = backend});
  }
  std::string open_error(const std::string& checkpoint_format = "auto") const {
    return message_of([&] { open(checkpoint_format); });
  }

  // Whether logits are those of the dequantized weights, to the bit.
  bool matches(CausalLm& model) const {
    const at::Tensor ids = at::tensor({3, 14, 15, 9, 2, 6}, at::kLong).unsqueeze(0);
    return at::equal(run_model(model, ids), run_model(*dense_.open(), ids));
  }

 private:
  nlohmann::json gptq_settings(const RandomCodes& codes) const {
    return {
        {"quant_method", "gptq"}, {"checkpoint_format", kind_ == Kind::kV1 ? "gptq" : "gptq_v2"},
        {"bits", codes.bits},     {"group_size", codes.group_size},
        {"sym", codes.symmetric}, {"desc_act", codes.act_order}};
  }
  static nlohmann::json compressed_settings(const RandomCodes& codes) {
    nlohmann::json weights = {{"num_bits", codes.bits},
                              {"type", "int"},
                              {"symmetric", codes.symmetric},
                              {"strategy", codes.group_size < 0 ? "channel" : "group"},
                              {"actorder", codes.act_order ? "group" : "static"}};
    if (codes.group_size > 0) weights["group_size"] = codes.group_size;
    return {{"quant_method", "compressed-tensors"},
            {"format", "pack-quantized"},
            {"quantization_status", "compressed"},
            {"ignore", {"lm_head"}},
            {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  }

  Kind kind_;
  EditedModel dense_;
  EditedModel packed_;
};

}  // namespace gptqb::test
