#include "methods/sweep_dispatch.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "common/error.h"
#include "kernels/solver.h"
#include "methods/device_stream.h"

namespace gptqb {
namespace {

// Rows are dealt out in multiples of the CPU kernel's tile, so that each row is computed by the
// same instructions whatever the number of threads.
constexpr int64_t kRowsPerTask = 64;

template <class T>
void sweep(const SweepTensors& tensors, int64_t begin, int64_t end) {
  const int64_t rows = tensors.weights.size(1);
  kernels::SweepChunk<T> chunk;
  chunk.rows = rows;
  chunk.columns = end - begin;
  chunk.weights = tensors.weights.const_data_ptr<T>() + begin * rows;
  chunk.carried = tensors.carried.const_data_ptr<T>() + begin * rows;
  chunk.factor_stride = tensors.factor.stride(0);
  chunk.factor = tensors.factor.const_data_ptr<T>() + begin * chunk.factor_stride + begin;
  chunk.diagonal = tensors.diagonal.const_data_ptr<T>() + begin;
  chunk.scales = tensors.scales.const_data_ptr<T>();
  chunk.zeros = tensors.zeros.const_data_ptr<T>();
  chunk.group_of_column = tensors.group_of_column.const_data_ptr<int32_t>() + begin;
  chunk.max_code = static_cast<T>(tensors.max_code);
  chunk.ternary = tensors.ternary;
  chunk.codes = tensors.codes.mutable_data_ptr<uint8_t>() + begin * rows;
  chunk.errors = tensors.errors.mutable_data_ptr<T>() + begin * rows;
  chunk.losses = tensors.losses.mutable_data_ptr<double>();

  const auto device = tensors.weights.device();
  if (device.is_cuda()) {
    const DeviceStream stream(device);
    kernels::sweep_cuda(chunk, stream.handle());
    return;
  }
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  at::parallel_for(0, tasks, 1, [&](int64_t first, int64_t last) {
    kernels::sweep_cpu(chunk, first * kRowsPerTask, std::min(last * kRowsPerTask, rows));
  });
}

}  // namespace

int64_t sweep_columns(at::Device device) {
  using Chunk = kernels::SweepChunk<float>;
  return device.is_cuda() ? Chunk::kMaxCudaColumns : Chunk::kMaxColumns;
}

void sweep_chunk(const SweepTensors& tensors, int64_t begin, int64_t end) {
  const int64_t most = sweep_columns(tensors.weights.device());
  if (end - begin < 1 || end - begin > most)
    throw Error("sweep_chunk", "expected 1 to " + std::to_string(most) + " columns, got " +
                                   std::to_string(end - begin));
  for (const auto* tensor :
       {&tensors.weights, &tensors.carried, &tensors.factor, &tensors.diagonal, &tensors.scales,
        &tensors.zeros, &tensors.group_of_column, &tensors.codes, &tensors.errors, &tensors.losses})
    if (!tensor->is_contiguous())
      throw Error("sweep_chunk", "expected contiguous tensors, got one that is not");
  if (tensors.weights.scalar_type() == at::kDouble)
    sweep<double>(tensors, begin, end);
  else
    sweep<float>(tensors, begin, end);
}

void synchronize(at::Device device) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.has_index() ? device.index() : guard.getDevice().index());
}

}  // namespace gptqb
