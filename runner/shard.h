// `--shard I/N`: the cells of one of N runs over the same plan.
#pragma once

#include <cstdint>

namespace gptqb {

struct Plan;

// Leaves the cells of shard `shard` (from 0) of `shards` in `plan`, in their order, and counts the
// others. Cells are dealt out in turn by rising id, so shards differ by one cell at most, every
// machine comes to the same split, the order of lists in the file does not change it, and a sweep
// whose last key doubles the work does not give one shard all the long cells.
void take_shard(Plan& plan, int64_t shard, int64_t shards);

}  // namespace gptqb
