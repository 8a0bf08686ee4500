// What was measured of one kernel on one problem, beside what the device reached in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gptqb {

// One row of kernels.csv.
struct KernelRow {
  std::string kernel;  // "dense": the product by 16-bit (CPU: 32-bit) weights
  int64_t k = 0;
  int64_t n = 0;
  int64_t m = 0;
  int64_t bits = 0;
  int64_t group_size = -1;
  bool symmetric = false;
  bool act_order = false;
  std::string dtype;
  double us = 0;  // median over repetitions, of one call
  double us_p10 = 0;
  double us_p90 = 0;
  double gb_per_s = 0;  // packed weights (codes, scales, zero points, order) only, each read once
  double tflop_per_s = 0;          // 2 m n k
  double bandwidth_share = 0;      // gb_per_s over what the plain read reached in the same run
  double dense_rate_share = 0;     // tflop_per_s over the large dense product of the same run
  double speedup_vs_f16 = 0;       // over the dense product of the same shape, m and type
  double max_relative_error = 0;   // largest error over the largest exact value
  double mean_relative_error = 0;  // mean error over the mean size
  double error_of_bound = 0;       // largest error over its bound (ExactProduct)
  std::string reason;              // why this kernel
  std::string cache;               // "cold", "warm"
  int64_t weight_bytes = 0;        // packed
  int64_t calls = 0;               // in each repetition
  int64_t repetitions = 0;
  int64_t clock_mhz = 0;     // lowest that was seen; 0: unknown
  std::string throttled;     // what held clocks back meanwhile; empty: nothing, or unknown
  double read_gb_per_s = 0;  // the ceilings of the run
  double dense_tflop_per_s = 0;
  std::vector<double> samples;  // us a call of each repetition, in order

  bool dense() const { return kernel == "dense"; }
  // Operations over bytes that must move at least: weights, activations and result once each.
  double intensity() const;
};

}  // namespace gptqb
