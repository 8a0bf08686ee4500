// What a layer saw in calibration: the second moments of its inputs and how much data stands behind
// them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "methods/method_config.h"

namespace gptqb {

// How the second moments are summed: the same number but for rounding, which large models amplify.
enum class Accumulation {
  kSum,        // x x^T summed, scaled once at the end
  kPublished,  // the published code's running mean, one float32 product a sequence
               // (protocol.md 5.1)
};

// Sums x x^T over calibration tokens. One object serves all linears that read the same input.
class CalibrationStats {
 public:
  // `precision`: of kSum's products on a GPU (second_moments_gpu.h). `outlier_threshold`: count
  // input columns with values of at least this size, window by window.
  CalibrationStats(int64_t in_features, at::Device device,
                   Accumulation accumulation = Accumulation::kSum,
                   std::optional<double> outlier_threshold = {},
                   ProductPrecision precision = ProductPrecision::kFp32);

  // `x` [sequences, seqlen, in] in any float dtype on the device; each product is summed in f32.
  void add(const at::Tensor& x);

  // 2 / sequences * sum of x x^T, f32 [in, in], symmetric: the published scale, before dead-column
  // repair and damping (published code `gptq.py`; protocol.md section 5.1). Zero if nothing was
  // added.
  at::Tensor hessian() const;

  int64_t in_features() const { return sum_.size(0); }
  int64_t tokens() const { return tokens_; }
  int64_t sequences() const { return sequences_; }
  // Input values that were NaN or infinite, and where the first of them stands: the sequence,
  // counted over all calls of add(), and the input column (-1: none). A solver must refuse them by
  // name: damping does not help (faults QN-02).
  int64_t non_finite_inputs() const { return non_finite_; }
  int64_t first_non_finite_sequence() const { return first_non_finite_sequence_; }
  int64_t first_non_finite_column() const { return first_non_finite_column_; }
  // Share of the input columns that hold an outlier, mean over the windows; empty if not counted.
  std::optional<double> outlier_share() const;

 private:
  void add_published(const at::Tensor& x);

  at::Tensor sum_;  // f32 [in, in]; kPublished: H itself
  Accumulation accumulation_;
  ProductPrecision precision_;
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
  int64_t non_finite_ = 0;
  int64_t first_non_finite_sequence_ = -1;
  int64_t first_non_finite_column_ = -1;
  std::optional<double> outlier_threshold_;
  int64_t outlier_columns_ = 0;  // summed over windows
};

}  // namespace gptqb
