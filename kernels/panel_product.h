// Matrix products on the CPU from panels that are packed once and used many times: what a solver
// needs, whose factor serves every strip of rows and whose errors never change once they are known.
//
// A matrix [depth, columns] is packed in panels of `width` adjacent columns: inside a panel element
// (k, j) is at k * width + j, so that a product reads it from front to back, and the next panel
// starts `stride` elements later. Columns that the last panel has too many are zero. Raw pointers,
// f32, host memory.
#pragma once

#include <cstdint>
#include <span>

namespace gptqb::kernels {

// out [left_columns, right_columns] += left^T right, on the calling thread. Nothing is owned. Each
// element is summed in the same order whatever part of a larger product is asked for, as long as
// `depth` starts and ends at the same elements.
struct PanelProduct {
  int64_t depth = 0;
  int64_t left_columns = 0;
  int64_t right_columns = 0;
  int64_t left_skipped = 0;     // columns of the first panel before the first that is meant
  const float* left = nullptr;  // [depth, left_skipped + left_columns] in panels of `left_width`
  int64_t left_stride = 0;
  const float* right = nullptr;  // [depth, right_columns] in panels of `right_width`
  int64_t right_stride = 0;
  float* out = nullptr;  // element (i, j) at i * out_stride + j
  int64_t out_stride = 0;
};

// The product as one instruction set does it, and the panels it takes.
struct PanelKernel {
  int64_t left_width = 0;
  int64_t right_width = 0;
  void (*add)(const PanelProduct& product) = nullptr;
};

// All that this processor can run, the quickest first; panels of one are not those of another.
std::span<const PanelKernel> panel_kernels();

// Elements between panels of a left matrix, so that those of a block do not all fall into the same
// sets of a cache: at least depth * width.
int64_t left_panel_stride(int64_t depth, int64_t width);

// Packs source [depth, columns], element (k, j) at k * source_stride + j.
void pack_panels(const float* source, int64_t source_stride, int64_t depth, int64_t columns,
                 int64_t width, float* packed, int64_t stride);

}  // namespace gptqb::kernels
