#include "methods/obq_fast.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>

#include "common/error.h"
#include "kernels/obq.h"
#include "methods/device_stream.h"

namespace gptqb {
namespace {

int64_t workspace_bytes(at::ScalarType dtype, int64_t columns) {
  return static_cast<int64_t>(dtype == at::kDouble ? kernels::obq_workspace_bytes<double>(columns)
                                                   : kernels::obq_workspace_bytes<float>(columns));
}

std::string gib_text(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GiB", static_cast<double>(bytes) / 1073741824.0);
  return text;
}

// Two blocks of threads fit on each of the 132 multiprocessors of the largest GPU of today; smaller
// ones let some wait.
constexpr int64_t kGpuWorkers = 264;

// The problem as kernels take it, everything contiguous on one device, and what they write.
struct Tensors {
  at::Tensor weights, inverse, scales, zeros, groups, codes, steps, losses, failed;

  explicit Tensors(const ObqProblem& problem)
      : weights(problem.weights.contiguous()),
        inverse(problem.inverse.contiguous()),
        scales(problem.grids.scale.contiguous()),
        zeros(problem.grids.zero.contiguous()),
        groups(problem.group_of_position.to(weights.device()).contiguous()),
        codes(at::zeros_like(weights, weights.options().dtype(at::kByte))),
        steps(at::zeros_like(weights, weights.options().dtype(at::kInt))),
        losses(at::zeros({weights.size(0)}, weights.options().dtype(at::kDouble))),
        failed(at::full({weights.size(0)}, -1, weights.options().dtype(at::kInt))) {}
};

template <class T>
void run(const ObqProblem& problem, Tensors& tensors) {
  const auto device = tensors.weights.device();
  kernels::ObqRows<T> rows;
  rows.rows = tensors.weights.size(0);
  rows.columns = tensors.weights.size(1);
  rows.groups = tensors.scales.size(1);
  rows.weights = tensors.weights.const_data_ptr<T>();
  rows.inverse = tensors.inverse.const_data_ptr<T>();
  rows.scales = tensors.scales.const_data_ptr<T>();
  rows.zeros = tensors.zeros.const_data_ptr<T>();
  rows.group_of_column = tensors.groups.const_data_ptr<int32_t>();
  rows.max_code = static_cast<T>(problem.quant.max_code());
  rows.ternary = problem.quant.bits == QuantConfig::kTernary;
  rows.greedy = problem.greedy;
  rows.outlier_first = problem.outlier_first;
  rows.smallest_pivot = static_cast<T>(smallest_obq_pivot(tensors.weights.scalar_type()));
  rows.codes = tensors.codes.mutable_data_ptr<uint8_t>();
  rows.steps = tensors.steps.mutable_data_ptr<int32_t>();
  rows.losses = tensors.losses.mutable_data_ptr<double>();
  rows.failed = tensors.failed.mutable_data_ptr<int32_t>();

  const int64_t in_flight =
      obq_rows_in_flight(problem.layer, rows.rows, rows.columns, tensors.weights.scalar_type(),
                         problem.budget, device.is_cuda() ? kGpuWorkers : at::get_num_threads());
  const int64_t bytes = workspace_bytes(tensors.weights.scalar_type(), rows.columns);
  auto workspace = at::empty({in_flight, bytes}, tensors.weights.options().dtype(at::kByte));
  auto* memory = workspace.mutable_data_ptr<uint8_t>();
  if (device.is_cuda()) {
    const DeviceStream stream(device);
    kernels::obq_cuda(rows, in_flight, memory, stream.handle());
    return;
  }
  at::parallel_for(0, in_flight, 1, [&](int64_t first, int64_t last) {
    for (int64_t lane = first; lane < last; ++lane)
      kernels::obq_cpu(rows, lane, in_flight, memory + lane * bytes);
  });
}

}  // namespace

int64_t obq_rows_in_flight(const std::string& layer, int64_t rows, int64_t columns,
                           at::ScalarType dtype, int64_t budget, int64_t workers) {
  const int64_t one = workspace_bytes(dtype, columns);
  if (one > budget)
    throw Error(layer, "expected OBQ's inverse of one row to fit " + gib_text(budget) + ", got " +
                           std::to_string(columns) + " x " + std::to_string(columns) +
                           " numbers, which take " + gib_text(one) +
                           ". Leave the layer out with method.layers or an override, or use gptq");
  return std::max<int64_t>(1, std::min({budget / one, workers, rows}));
}

ObqResult solve_obq_fast(const ObqProblem& problem) {
  Tensors tensors(problem);
  if (tensors.weights.scalar_type() == at::kDouble)
    run<double>(problem, tensors);
  else
    run<float>(problem, tensors);

  ObqResult result;
  const auto stopped = tensors.failed >= 0;
  if (stopped.any().item<bool>()) {
    const int64_t row = stopped.to(at::kInt).argmax().item<int64_t>();
    result.breakdown = ObqResult::Breakdown{row, tensors.failed[row].item<int64_t>()};
  }
  result.codes = tensors.codes;
  result.steps = tensors.steps;
  result.loss = tensors.losses.sum().item<double>();
  return result;
}

}  // namespace gptqb
