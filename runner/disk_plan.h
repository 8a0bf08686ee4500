// How much a cell writes to disk, from shapes and settings alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "methods/memory_plan.h"
#include "runner/cell.h"

namespace gptqb {

// Bytes of a linear of `out` x `in` in a packed checkpoint, as GptqTensors has it: whole 32-bit
// words of codes and zero points, float16 scales, the group of each input.
int64_t packed_bytes(const QuantConfig& quant, int64_t out, int64_t in);

// What a run writes beside records.
struct DiskTask {
  bool resume = true;     // finished blocks are kept until the cell is finished
  bool save = false;      // packed checkpoint
  bool hessians = false;  // `dump: [hessians]`
};

// Bytes.
struct DiskPlan {
  int64_t resume = 0;      // <output>/work/<cell id>, when its last block is finished; then removed
  int64_t checkpoint = 0;  // tensors of the packed folder
  int64_t hessians = 0;
  int64_t record = 0;  // <output>/records/<cell id>.json

  // Of it, what stays.
  int64_t kept() const { return checkpoint + hessians + record; }
  int64_t peak() const { return kept() + resume; }
};

// `linears`: full names of the linears of all blocks, block by block and stage by stage, as
// linear_names() gives them. Codes that an external program may return as dense weights count in
// their bits, outlier columns of llm_int8 as codes, and windows of evaluations without max_windows
// as none.
DiskPlan plan_disk(const Cell& cell, const ModelSizes& sizes,
                   const std::vector<std::string>& linears, const DiskTask& task);

}  // namespace gptqb
