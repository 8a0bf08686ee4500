// Memory for large matrices on the CPU.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// at::empty() whose memory the system may hand out in pages of 2 MiB, where it has them: the first
// touch of a matrix in pages of 4 KiB costs as much time as a few passes over it. Contiguous.
at::Tensor empty_in_huge_pages(at::IntArrayRef sizes, const at::TensorOptions& options);
// The same of zeros.
at::Tensor zeros_in_huge_pages(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace gptqb
