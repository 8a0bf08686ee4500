// Products of float32 matrices on a GPU's tensor cores, which read 10 of the 23 fraction bits
// (TF32). Split in two halves of 11 bits each, three such products are as exact as one in float32
// and take less time.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// Lets cuBLAS round the inputs of float32 products to TF32 while it lives.
class AllowTf32 {
 public:
  AllowTf32();
  ~AllowTf32();
  AllowTf32(const AllowTf32&) = delete;
  AllowTf32& operator=(const AllowTf32&) = delete;

 private:
  bool before_;
};

// values = high + low, where TF32 holds `high` exactly.
struct Tf32Halves {
  at::Tensor high;
  at::Tensor low;
};

// Of an f32 matrix on a GPU, its rows contiguous; the halves are contiguous.
Tf32Halves split_for_tf32(const at::Tensor& values);

// The same into `halves`, contiguous f32 of its shape.
void split_for_tf32(const at::Tensor& values, const Tf32Halves& halves);

// sum of a b over two matrices of one shape, f32 or f64, added up in f64: f64 [], on their device.
at::Tensor dot_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace gptqb
