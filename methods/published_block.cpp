#include "methods/published_block.h"

#include "kernels/published_block.h"
#include "methods/device_stream.h"

namespace gptqb {

bool can_solve_published_blocks(const SweepProblem& problem, const OrderedProblem& ordered) {
  return ordered.weights.is_cuda() && ordered.weights.is_contiguous() &&
         ordered.weights.scalar_type() == at::kFloat && !problem.rule.quant.ternary() &&
         problem.method.block_size <= kernels::PublishedBlock::kMaxColumns &&
         (!ordered.dynamic || problem.compat.reference_group_grid);
}

at::Tensor solve_published_block(const SweepProblem& problem, const OrderedProblem& ordered,
                                 const at::Tensor& factor, const at::Tensor& groups, int64_t begin,
                                 int64_t columns, const at::Tensor& weights,
                                 const at::Tensor& codes, const at::Tensor& losses) {
  const int64_t rows = weights.size(0);
  const auto errors = at::empty({rows, columns}, weights.options());
  const auto scales = ordered.grids.scale.contiguous();
  const auto zeros = ordered.grids.zero.contiguous();
  // cholesky_ex gives U by columns.
  const auto block =
      factor.slice(0, begin, begin + columns).slice(1, begin, begin + columns).contiguous();
  const DeviceStream stream(weights.device());
  kernels::published_block_cuda({.rows = rows,
                                 .columns = columns,
                                 .weights = weights.const_data_ptr<float>() + begin,
                                 .weights_stride = weights.stride(0),
                                 .factor = block.const_data_ptr<float>(),
                                 .factor_stride = columns,
                                 .scales = scales.const_data_ptr<float>(),
                                 .zeros = zeros.const_data_ptr<float>(),
                                 .groups = scales.size(1),
                                 .group_of_column = groups.const_data_ptr<int32_t>() + begin,
                                 .max_code = static_cast<float>(problem.rule.quant.max_code()),
                                 .codes = codes.mutable_data_ptr<float>() + begin,
                                 .codes_stride = codes.stride(0),
                                 .errors = errors.mutable_data_ptr<float>(),
                                 .losses = losses.mutable_data_ptr<double>()},
                                stream.handle());
  return errors;
}

}  // namespace gptqb
