// What the stored numbers look like: bits, groups, symmetry, and how a grid is searched.
#pragma once

#include <cstdint>
#include <string>

#include "common/options.h"

namespace gptqb {

enum class GridSearch { kNone, kMse };
enum class ScaleDtype { kFloat16, kFloat32 };

// Code width, grouping and grid rule of one linear. The section `quant` of an experiment file.
struct QuantConfig {
  int64_t bits = 4;  // 2, 3, 4 or 8; kTernary for the levels {min, 0, max} of each group
  int64_t group_size =
      128;  // input columns that share a grid; -1: the whole row. A short last group is allowed
  bool symmetric = false;  // min = -max, zero point = 2^(bits-1)
  GridSearch grid_search = GridSearch::kNone;
  ScaleDtype scale_dtype = ScaleDtype::kFloat16;  // float16: scales are rounded *before* the sweep
  double grid_norm = 2.4;                         // exponent of the error the grid search minimizes
  int64_t grid_steps = 100;  // shrink candidates are p = 1 - i / grid_steps ...
  double grid_shrink = 0.8;  // ... for i in [0, grid_shrink * grid_steps)

  static constexpr int64_t kTernary = 0;
  // Below it two stored levels weigh more than the codes they serve.
  static constexpr int64_t kSmallestTernaryGroup = 8;

  bool ternary() const { return bits == kTernary; }
  // Largest code: 2^bits - 1; 2 for ternary.
  int64_t max_code() const { return ternary() ? 2 : (int64_t{1} << bits) - 1; }
  // Groups of a row of `in_features` columns, the short last one counted.
  int64_t groups(int64_t in_features) const {
    return group_size < 0 ? 1 : (in_features + group_size - 1) / group_size;
  }
  // Group size with -1 resolved to `in_features`.
  int64_t columns_per_group(int64_t in_features) const {
    return group_size < 0 || group_size > in_features ? in_features : group_size;
  }
  // Throws Error naming the field: bits not 2/3/4/8/ternary, group_size 0 or below -1, search
  // settings out of range; ternary in groups below 8 or with a grid search, which is defined for
  // grids of equal steps.
  void validate(const std::string& where) const;

  bool operator==(const QuantConfig&) const = default;
};

}  // namespace gptqb
