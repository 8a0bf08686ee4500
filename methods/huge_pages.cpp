#include "methods/huge_pages.h"

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace gptqb {
namespace {

at::Tensor in_huge_pages(at::Tensor tensor) {
#ifdef __linux__
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  if (!tensor.is_cpu()) return tensor;
  const auto start = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  const uintptr_t begin = (start + kPage - 1) / kPage * kPage;
  const uintptr_t end = (start + tensor.nbytes()) / kPage * kPage;
  // Advice: where it is refused, pages stay small.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
  return tensor;
}

}  // namespace

at::Tensor empty_in_huge_pages(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return in_huge_pages(at::empty(sizes, options));
}

// The system's own zeros, where the matrix is large: nothing is touched before the advice.
at::Tensor zeros_in_huge_pages(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return in_huge_pages(at::zeros(sizes, options));
}

}  // namespace gptqb
