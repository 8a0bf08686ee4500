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

// Of x [rows, columns] of 16-bit values, 16-byte aligned, columns a multiple of 8, read in boxes of
// `box_rows` by 64 columns; their rows of 128 bytes are swizzled, what lies outside x is zero.
inline CUtensorMap tensor_map(HalfType type, const void* x, int64_t rows, int64_t columns,
                              int box_rows) {
  static const auto encode = encode_tiled();
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(columns) * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const auto kind = type == HalfType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult result =
      encode(&map, kind, 2, const_cast<void*>(x), sizes, row_bytes, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error("cuda", "expected cuTensorMapEncodeTiled to take [" + std::to_string(rows) + ", " +
                            std::to_string(columns) + "], got its error " +
                            std::to_string(static_cast<int>(result)));
  return map;
}

}  // namespace gptqb::kernels
