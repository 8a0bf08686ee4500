#include "methods/packed_linear.h"

#include <algorithm>
#include <optional>

#include "common/error.h"
#include "kernels/packing.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"
#include "methods/matmul_device.h"

namespace gptqb {
namespace {

kernels::QuantView view_of(const QuantizedLinear& linear) {
  if (linear.ternary())
    throw Error(
        kernels::kPacking,
        "expected codes of 2, 3, 4 or 8 bits, got ternary ones, which no kernel multiplies. "
        "Use model.backend: dense");
  return {.rows = linear.out_features(),
          .columns = linear.in_features(),
          .groups = linear.groups(),
          .bits = linear.bits,
          .group_size = linear.group_size,
          .codes = linear.codes.const_data_ptr<uint8_t>(),
          .scales = linear.scales.const_data_ptr<float>(),
          .zeros = linear.zeros.const_data_ptr<uint8_t>(),
          .group_of_input = linear.group_of_input.defined()
                                ? linear.group_of_input.const_data_ptr<int32_t>()
                                : nullptr};
}

// As kernels read and write: rows one after the other, from a multiple of 16 bytes.
at::Tensor for_kernels(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(dense.const_data_ptr());
  return address % 16 == 0 ? dense : dense.clone();
}

}  // namespace

PackedLinear::PackedLinear(const QuantizedLinear& linear, std::string_view layout)
    : memory_(layout, view_of(linear)) {}

std::optional<PackedLinear> PackedLinear::stacked(std::string_view layout,
                                                  const std::vector<const PackedLinear*>& parts) {
  std::vector<const PackedCopies*> memories;
  for (const PackedLinear* part : parts) memories.push_back(&part->memory_);
  std::optional<PackedCopies> all = PackedCopies::stacked(layout, memories);
  if (!all) return std::nullopt;
  return PackedLinear(std::move(*all));
}

PackedLinear PackedLinear::to(at::Device device) const {
  PackedLinear moved = *this;
  moved.memory_.put(device, 1);
  return moved;
}

PackedProducts::PackedProducts(at::Device device, at::ScalarType type)
    : device_(device), type_(type), matmul_device_(matmul_device(device)) {
  if (type != at::kHalf && type != at::kBFloat16)
    throw Error("model.backend",
                std::string("expected a model of float16 or bfloat16 for packed products, got ") +
                    type_name(type) + ". Set model.dtype, or model.backend: dense");
}

std::string PackedProducts::kernel_for(int64_t m, int64_t out, int64_t in,
                                       const QuantConfig& quant) const {
  return kernels::choose_matmul({.m = m,
                                 .n = out,
                                 .k = in,
                                 .bits = quant.bits,
                                 .group_size = quant.group_size,
                                 .symmetric = quant.symmetric,
                                 .type = half_type(type_)},
                                matmul_device_)
      .kernel;
}

std::string_view PackedProducts::layout() const { return device_.is_cuda() ? "tiles" : "rows"; }

const kernels::MatmulKernel& PackedProducts::kernel(const std::string& name) {
  auto& made = kernels_[name];
  if (!made) made = kernels::matmul_kernels().at(name).make();
  return *made;
}

// Kept between products: its flags are zero again after each.
void* PackedProducts::workspace(int64_t bytes) {
  if (!workspace_.defined() || workspace_.numel() < bytes) {
    if (workspace_.defined()) outgrown_.push_back(workspace_);
    workspace_ = at::zeros({std::max<int64_t>(bytes, 16)},
                           at::TensorOptions().device(device_).dtype(at::kByte));
  }
  return workspace_.data_ptr();
}

at::Tensor PackedProducts::product(const PackedLinear& linear, const at::Tensor& x,
                                   const at::Tensor& bias) {
  const kernels::PackedView weight = linear.view();
  const at::Tensor input = for_kernels(x);
  const at::Tensor addend = bias.defined() ? for_kernels(bias) : bias;
  auto sizes = x.sizes().vec();
  sizes.back() = weight.shape.rows;
  at::Tensor y = at::empty(sizes, input.options());
  const int64_t m = input.numel() / weight.shape.columns;
  if (m == 0) return y;
  const kernels::MatmulProblem problem{.m = m,
                                       .n = weight.shape.rows,
                                       .k = weight.shape.columns,
                                       .bits = weight.shape.bits,
                                       .group_size = weight.shape.group_size,
                                       .symmetric = weight.shape.symmetric,
                                       .act_order = weight.shape.ordered,
                                       .bias = bias.defined(),
                                       .type = half_type(input)};
  const std::string chosen = kernels::choose_matmul(problem, matmul_device_).kernel;
  const kernels::MatmulKernel& run = kernel(chosen);
  std::optional<DeviceStream> stream;
  if (device_.is_cuda()) stream.emplace(device_);
  run.launch({.m = m,
              .type = problem.type,
              .weight = weight,
              .x = input.const_data_ptr(),
              .bias = addend.defined() ? addend.const_data_ptr() : nullptr,
              .y = y.data_ptr(),
              .workspace = workspace(run.workspace_bytes(weight.shape, m, matmul_device_))},
             stream ? stream->handle() : nullptr);
  ++launched_[chosen];
  return y;
}

}  // namespace gptqb
