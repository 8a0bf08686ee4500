// Descriptions of matrices for the copy engine of Hopper GPUs. Only included by .cu files.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "kernels/cuda_check.h"
#include "kernels/half_type.h"

namespace gptqb::kernels {

// The driver's function, found at run time: the program does not link to the driver.
inline decltype(&cuTensorMapEncodeTiled) encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  GPTQB_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw Error("cuda", "expected a driver that knows cuTensorMapEncodeTiled, got an older one");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

// Of an array of kDimensions, 16-byte aligned, read in boxes; dimensions from the innermost, whose
// elements follow each other, to the outermost. `strides`: bytes between neighbours of the second
// and further dimensions, multiples of 16. What lies outside the array is zero.
template <size_t kDimensions>
CUtensorMap tensor_map(CUtensorMapDataType type, const void* data,
                       const std::array<int64_t, kDimensions>& sizes,
                       const std::array<int64_t, kDimensions - 1>& strides,
                       const std::array<int, kDimensions>& box, CUtensorMapSwizzle swizzle) {
  static const auto encode = encode_tiled();
  CUtensorMap map{};
  std::array<cuuint64_t, kDimensions> all_sizes{};
  std::array<cuuint64_t, kDimensions - 1> all_strides{};
  std::array<cuuint32_t, kDimensions> all_box{};
  std::array<cuuint32_t, kDimensions> steps{};
  std::copy(sizes.begin(), sizes.end(), all_sizes.begin());
  std::copy(strides.begin(), strides.end(), all_strides.begin());
  std::copy(box.begin(), box.end(), all_box.begin());
  steps.fill(1);
  const CUresult result =
      encode(&map, type, kDimensions, const_cast<void*>(data), all_sizes.data(), all_strides.data(),
             all_box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error("cuda", "expected cuTensorMapEncodeTiled to take an array of " +
                            std::to_string(sizes[kDimensions - 1]) + " by ... by " +
                            std::to_string(sizes[0]) + ", got its error " +
                            std::to_string(static_cast<int>(result)));
  return map;
}

// Of a matrix [rows, columns] whose rows follow each other.
inline CUtensorMap matrix_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                              int64_t rows, int64_t columns, int box_rows, int box_columns,
                              CUtensorMapSwizzle swizzle) {
  return tensor_map<2>(type, data, {columns, rows}, {columns * element_bytes},
                       {box_columns, box_rows}, swizzle);
}

// Of x [rows, columns] of 16-bit values in boxes of `box_rows` by 64 columns, whose rows of 128
// bytes are swizzled.
inline CUtensorMap swizzled_map(HalfType type, const void* x, int64_t rows, int64_t columns,
                                int box_rows) {
  const auto kind = type == HalfType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return matrix_map(kind, 2, x, rows, columns, box_rows, 64, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace gptqb::kernels
