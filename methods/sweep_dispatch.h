// The seam between tensors and the raw-pointer sweep kernels: checks, then the kernel of the
// tensors' device.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// Whole matrices of a sweep, contiguous, on one device, T = f32 or f64; meanings in
// kernels/solver.h.
struct SweepTensors {
  at::Tensor weights;          // T [in, rows]
  at::Tensor carried;          // T [in, rows]
  at::Tensor factor;           // T [in, in]
  at::Tensor diagonal;         // T [in]
  at::Tensor scales;           // T [groups, rows]
  at::Tensor zeros;            // T [groups, rows]
  at::Tensor group_of_column;  // i32 [in]
  at::Tensor codes;            // u8 [in, rows]
  at::Tensor errors;           // T [in, rows]
  at::Tensor losses;           // f64 [rows]
  int64_t max_code = 0;
  bool ternary = false;
};

// The most columns that one sweep on `device` takes.
int64_t sweep_columns(at::Device device);

// Sweeps columns [begin, end), at most sweep_columns of them. On CUDA the work is queued on the
// current stream.
void sweep_chunk(const SweepTensors& tensors, int64_t begin, int64_t end);

// Waits until all work queued on `device` is done; nothing to do on the CPU.
void synchronize(at::Device device);

}  // namespace gptqb
