#include "models/packed_validate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "common/error.h"
#include "models/causal_lm.h"
#include "models/message_text.h"
#include "models/packed_linears.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// Least cosine between the weights of a layer and the dense ones. Rounded to 2 bits by the largest
// weight of a row, normal numbers have about 0.8; unrelated matrices have about 0.
constexpr double kSameModel = 0.3;

class Validation {
 public:
  Validation(fs::path folder, std::string checkpoint_format, const fs::path& dense)
      : folder_(std::move(folder)), checkpoint_format_(std::move(checkpoint_format)) {
    // As a model: its tensors have the names and layout that the packed model's have.
    if (!dense.empty()) dense_ = open_model(dense_folder_ = dense, {.dtype = "float32"});
  }

  PackedReport run() {
    if (!attempt([&] { config_.emplace(read_config()); }) || !attempt([&] {
          tensors_.emplace(folder_, *config_ ? (*config_)->file_names : std::vector<std::string>());
        }))
      return std::move(report_);
    check_dense_tensors();
    if (!attempt([&] { packed_.emplace(*tensors_, *config_, checkpoint_format_); }))
      return std::move(report_);
    if (packed_->empty()) {
      add("expected packed tensors (qweight or weight_packed), got none");
      return std::move(report_);
    }
    report_.notes = packed_->notes();
    for (const std::string& note : tensors_->notes()) report_.notes.push_back(note);
    check_settings();
    // As a model: tensors that are missing, or too many, or of other shapes than config.json asks.
    attempt([&] {
      const auto model = open_model(folder_, {.checkpoint_format = checkpoint_format_});
      for (const std::string& note : model->notes())
        if (std::find(report_.notes.begin(), report_.notes.end(), note) == report_.notes.end())
          report_.notes.push_back(note);
      check_dense_linears(*model);
    });
    for (const std::string& name : packed_->names()) check_layer(name);
    if (dense_ && compared_ == 0)
      add("expected linears that " + dense_folder_.string() +
          " has too, got none: nothing was compared. Give the folder that this one was made from");
    return std::move(report_);
  }

 private:
  template <class Action>
  bool attempt(const Action& action) {
    try {
      action();
      return true;
    } catch (const std::exception& fault) {
      if (std::find(report_.faults.begin(), report_.faults.end(), fault.what()) ==
          report_.faults.end())
        report_.faults.emplace_back(fault.what());
      return false;
    }
  }
  void add(const std::string& message) { add_at(folder_.string(), message); }
  void add_at(const std::string& where, const std::string& message) {
    report_.faults.emplace_back(Error(where, message).what());
  }

  std::optional<PackedConfig> read_config() const {
    return read_packed_config(folder_, ConfigReader(folder_ / "config.json"));
  }

  // What the settings say of the whole folder, against what it holds.
  void check_settings() {
    if (const auto label = packed_->wrong_label())
      add(std::string("expected zero points as its label ") + format_name(*label) +
          " says, got those of the other convention: other readers answer nonsense. gptq-bench "
          "convert " +
          folder_.string() + " --format " + format_name(*label) + " --out DIR writes it right");
    if (!*config_ || !(*config_)->packed_head) return;
    const bool said = *(*config_)->packed_head, is = packed_->has("lm_head");
    if (said != is)
      add_at((*config_)->where, std::string("expected lm_head: ") + (is ? "true" : "false") +
                                    ", for the folder's head is " + (is ? "packed" : "dense") +
                                    ", got " + (said ? "true" : "false"));
  }

  // Linears that the settings call packed and the files hold dense: readers that trust the settings
  // look for tensors that are not there.
  void check_dense_linears(const CausalLm& model) {
    if (!*config_) return;
    const std::vector<std::string>& modules = (*config_)->modules;
    const std::vector<std::string> files = tensors_->names();
    std::vector<std::string> wrong;
    for (int64_t block = 0; block < model.block_count(); ++block)
      for (const Stage& stage : model.stages())
        for (const std::string& linear : stage.linears) {
          const std::string layer = in_files(files, model.block_name(block) + "." + linear);
          const bool meant =
              modules.empty() || std::find(modules.begin(), modules.end(), linear) != modules.end();
          if (!layer.empty() && meant && (*config_)->layer(layer)) wrong.push_back(layer);
        }
    if (!wrong.empty())
      add_at((*config_)->where, "expected a rule that leaves them dense, or packed tensors of " +
                                    shorten_list(wrong) +
                                    ", got dense weights that the settings call packed: " +
                                    "readers that trust them find no such tensors");
  }

  // The layer `name` as the files call it, if its weight is dense there; they may leave out the
  // model's prefix, or have it where the model does not.
  static std::string in_files(const std::vector<std::string>& files, const std::string& name) {
    const std::string_view end = ".weight";
    for (const std::string& file : files)
      if (file.ends_with(end))
        if (const std::string layer = file.substr(0, file.size() - end.size());
            is_end_of(layer, name) || is_end_of(name, layer))
          return layer;
    return "";
  }

  // Whether `end` is `name`, or all of it behind a dot.
  static bool is_end_of(const std::string& end, const std::string& name) {
    return name == end || name.ends_with("." + end);
  }

  void check_dense_tensors() {
    for (const std::string& name : tensors_->names()) {
      const at::ScalarType dtype = tensors_->info(name).dtype;
      if (dtype != at::kHalf && dtype != at::kBFloat16 && dtype != at::kFloat) continue;
      const at::Tensor tensor = tensors_->view(name);
      if (const int64_t position = first_non_finite(tensor); position >= 0)
        add_at(tensors_->describe(name), "expected finite numbers, got NaN or infinity at " +
                                             index_text(position, tensor.sizes().vec()));
    }
  }

  void check_layer(const std::string& name) {
    ++report_.layers;
    attempt([&] {
      const auto [out, in] = packed_->sizes_of(name);
      const PackedLayer layout = packed_->layout(name, out, in);
      const QuantizedLinear linear = packed_->unpack(name, out, in);
      check_grids(name, layout, linear);
      check_index(name, layout, linear);
      if (dense_) compare(name, linear);
    });
  }

  void check_grids(const std::string& name, const PackedLayer& layout,
                   const QuantizedLinear& linear) {
    const std::string where = folder_.string() + ", " + name;
    if (const auto wrong = linear.scales.le(0); wrong.any().item<bool>())
      add_at(where, "expected scales above 0, got " + std::to_string(wrong.sum().item<int64_t>()) +
                        " that are not");
    const int64_t middle = int64_t{1} << (linear.bits - 1);
    if (layout.symmetric && linear.zeros.ne(middle).any().item<bool>())
      add_at(where, "expected zero points of " + std::to_string(middle) +
                        ", for the configuration says sym, got others. Zero points of the other "
                        "convention, or sym: false");
    // A layer of zeros has the zero points as codes.
    if (linear.codes.max().item<int64_t>() == linear.codes.min().item<int64_t>() &&
        linear.codes.numel() > 1 && linear.dequantize(at::kFloat).ne(0).any().item<bool>())
      add_at(where, "expected codes that differ, got " +
                        std::to_string(linear.codes.max().item<int64_t>()) +
                        " everywhere: the writer packed none");
  }

  // A group of sweep order has group_size columns, like one of natural order.
  void check_index(const std::string& name, const PackedLayer& layout,
                   const QuantizedLinear& linear) {
    if (!linear.group_of_input.defined()) return;
    const std::string where = folder_.string() + ", " + name;
    const at::Tensor counts =
        at::bincount(linear.group_of_input.to(at::kLong), {}, linear.scales.size(1));
    if (counts.max().item<int64_t>() > layout.group_size || counts.eq(0).any().item<bool>())
      add_at(where, "expected " + std::to_string(layout.group_size) +
                        " inputs in each group of the index, got from " +
                        std::to_string(counts.min().item<int64_t>()) + " to " +
                        std::to_string(counts.max().item<int64_t>()));
    if (!layout.act_order)
      add_at(where,
             "expected the index i / group_size, for the configuration says that columns are "
             "in natural order (desc_act false), got another: readers that trust it answer "
             "nonsense");
  }

  // The dense weight of a layer, which the packed files may name with or without the prefix of the
  // model ("h.0.attn" for "transformer.h.0.attn"); undefined if there is none.
  at::Tensor dense_weight(const std::string& layer) const {
    const std::string other = in_files(dense_->tensor_names(), layer);
    return other.empty() ? at::Tensor() : dense_->tensor(other + ".weight");
  }

  void compare(const std::string& name, const QuantizedLinear& linear) {
    const at::Tensor dense = dense_weight(name);
    if (!dense.defined()) {
      report_.notes.push_back(dense_folder_.string() + " has no " + name + ".weight: not compared");
      return;
    }
    const std::string where = folder_.string() + ", " + name;
    const at::Tensor weights = linear.dequantize(at::kFloat);
    if (dense.sizes() != weights.sizes())
      return add_at(where, "expected the shape of the dense weight, " +
                               shape_text(dense.sizes().vec()) + ", got " +
                               shape_text(weights.sizes().vec()));
    ++compared_;
    if (dense.norm().item<double>() == 0) {
      if (weights.ne(0).any().item<bool>())
        add_at(where,
               "expected zeros, as all dense weights are, got others: another model's, or "
               "damaged");
      return;
    }
    // Of directions and not of distances: with 2 bits a sound layer may be further away than zeros.
    const auto cosine = [&](const at::Tensor& of) {
      const double norms = of.norm().item<double>() * dense.norm().item<double>();
      return norms > 0 ? (of * dense).sum(at::kDouble).item<double>() / norms : 0;
    };
    const at::Tensor step = QuantizedLinear{.codes = at::ones_like(linear.codes),
                                            .scales = linear.scales,
                                            .zeros = at::zeros_like(linear.zeros),
                                            .levels = {},
                                            .group_of_input = linear.group_of_input,
                                            .bits = linear.bits,
                                            .group_size = linear.group_size}
                                .dequantize(at::kFloat);
    const double own = cosine(weights);
    for (const int sign : {1, -1})
      if (const double moved = cosine(weights - sign * step); moved > own && moved >= kSameModel)
        return add_at(where,
                      std::string("expected zero points near the dense weights, got ones that fit "
                                  "better when ") +
                          (sign > 0 ? "1 is added: stored less 1 (gptq), read as they are"
                                    : "1 is taken away: stored as they are (gptq_v2), read as less "
                                      "1") +
                          ". Set model.checkpoint_format, or convert the folder");
    if (own < kSameModel)
      add_at(where, "expected weights of the direction of the dense ones, got a cosine of " +
                        number_text(own) + ": another model's, or damaged");
  }

  fs::path folder_;
  std::string checkpoint_format_;
  fs::path dense_folder_;
  std::unique_ptr<CausalLm> dense_;
  int64_t compared_ = 0;
  std::optional<std::optional<PackedConfig>> config_;
  std::optional<TensorReader> tensors_;
  std::optional<PackedLinears> packed_;
  PackedReport report_;
};

}  // namespace

PackedReport validate_packed(const fs::path& folder, const std::string& checkpoint_format,
                             const fs::path& dense) {
  return Validation(folder, checkpoint_format, dense).run();
}

}  // namespace gptqb
