// Descriptions of matrices for the copy engine of Hopper GPUs. Only included by .cu files.
#pragma once

#include <cuda.h>

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

// Of a matrix [rows, columns] whose rows follow each other, 16-byte aligned, of a multiple of 16
// bytes, read in boxes; what lies outside the matrix is zero.
inline CUtensorMap tensor_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                              int64_t rows, int64_t columns, int box_rows, int box_columns,
                              CUtensorMapSwizzle swizzle) {
  static const auto encode = encode_tiled();
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(columns * element_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(data), sizes, row_bytes, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error("cuda", "expected cuTensorMapEncodeTiled to take [" + std::to_string(rows) + ", " +
                            std::to_string(columns) + "], got its error " +
                            std::to_string(static_cast<int>(result)));
  return map;
}

// Of x [rows, columns] of 16-bit values in boxes of `box_rows` by 64 columns, whose rows of 128
// bytes are swizzled.
inline CUtensorMap swizzled_map(HalfType type, const void* x, int64_t rows, int64_t columns,
                                int box_rows) {
  const auto kind = type == HalfType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return tensor_map(kind, 2, x, rows, columns, box_rows, 64, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace gptqb::kernels
