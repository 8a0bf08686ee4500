#include "methods/tf32.h"

#include <ATen/Context.h>

namespace gptqb {

AllowTf32::AllowTf32() : before_(at::globalContext().allowTF32CuBLAS()) {
  at::globalContext().setAllowTF32CuBLAS(true);
}

AllowTf32::~AllowTf32() { at::globalContext().setAllowTF32CuBLAS(before_); }

Tf32Halves split_for_tf32(const at::Tensor& values) {
  // The nearest number that TF32 holds: 13 of the 23 fraction bits are cleared.
  auto bits = values.contiguous().view(at::kInt) + 0x1000;
  Tf32Halves halves;
  halves.high = bits.bitwise_and_(~0x1FFF).view(at::kFloat);
  halves.low = values - halves.high;
  return halves;
}

at::Tensor exact_product(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_cuda() || a.scalar_type() != at::kFloat) return at::mm(a, b);
  const auto left = split_for_tf32(a);
  const auto right = split_for_tf32(b);
  const AllowTf32 allow;
  // The product of the low halves is below what float32 keeps. Small terms first.
  auto product = at::mm(left.low, right.high);
  product.addmm_(left.high, right.low);
  return product.addmm_(left.high, right.high);
}

}  // namespace gptqb
