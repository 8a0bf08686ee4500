#include "models/packed_validate.h"

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "models/causal_lm.h"
#include "models/message_text.h"
#include "models/packed_linears.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

class Validation {
 public:
  Validation(fs::path folder, std::string checkpoint_format, const fs::path& dense)
      : folder_(std::move(folder)), checkpoint_format_(std::move(checkpoint_format)) {
    if (!dense.empty()) dense_.emplace(dense);
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
    // As a model: tensors that are missing, or too many, or of other shapes than config.json asks.
    attempt([&] {
      for (const std::string& note :
           open_model(folder_, {.checkpoint_format = checkpoint_format_})->notes())
        if (std::find(report_.notes.begin(), report_.notes.end(), note) == report_.notes.end())
          report_.notes.push_back(note);
    });
    for (const std::string& name : packed_->names()) check_layer(name);
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
    if (linear.codes.max().item<int64_t>() == linear.codes.min().item<int64_t>() &&
        linear.codes.numel() > 1)
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

  void compare(const std::string& name, const QuantizedLinear& linear) {
    const std::string weight = name + ".weight";
    if (!dense_->has(weight)) {
      report_.notes.push_back(dense_->folder().string() + " has no " + weight + ": not compared");
      return;
    }
    const at::Tensor dense = dense_->view(weight).to(at::kFloat);
    const std::string where = folder_.string() + ", " + name;
    const at::Tensor weights = linear.dequantize(at::kFloat);
    if (dense.sizes() != weights.sizes())
      return add_at(where, "expected the shape of the dense weight, " +
                               shape_text(dense.sizes().vec()) + ", got " +
                               shape_text(weights.sizes().vec()));
    const auto distance = [&](double moved) {
      const at::Tensor scale = QuantizedLinear{.codes = at::ones_like(linear.codes),
                                               .scales = linear.scales,
                                               .zeros = at::zeros_like(linear.zeros),
                                               .levels = {},
                                               .group_of_input = linear.group_of_input,
                                               .bits = linear.bits,
                                               .group_size = linear.group_size}
                                   .dequantize(at::kFloat);
      return (weights - moved * scale - dense).norm().item<double>();
    };
    const double own = distance(0), norm = dense.norm().item<double>();
    for (const int step : {1, -1})
      if (const double moved = distance(step); moved < own && moved < norm)
        return add_at(where,
                      std::string("expected zero points near the dense weights, got ones that fit "
                                  "better when ") +
                          (step > 0 ? "1 is added: stored less 1 (gptq), read as they are"
                                    : "1 is taken away: stored as they are (gptq_v2), read as less "
                                      "1") +
                          ". Set model.checkpoint_format, or convert the folder");
    if (!(own < norm))
      add_at(where, "expected weights nearer to the dense ones than zeros are, got a distance of " +
                        number_text(own / norm) + " of their size: another model's, or damaged");
  }

  fs::path folder_;
  std::string checkpoint_format_;
  std::optional<TensorReader> dense_;
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
