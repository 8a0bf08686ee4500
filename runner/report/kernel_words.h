// Products of packed weights in the words of tables and plots.
#pragma once

#include <string>

#include "eval/kernel_row.h"

namespace gptqb {

// "4096 x 11008", in x out features.
inline std::string shape_words(const KernelRow& row) {
  return std::to_string(row.k) + " x " + std::to_string(row.n);
}

// "4 bits, g128, act-order"; "16 bits" of a dense product.
inline std::string weight_words(const KernelRow& row) {
  std::string text = std::to_string(row.bits) + " bits";
  if (row.dense()) return text;
  text += row.group_size == -1 ? ", row" : ", g" + std::to_string(row.group_size);
  if (!row.symmetric) text += ", asym";
  if (row.act_order) text += ", act-order";
  return text;
}

// "float16" of the metric "kernels.float16.tflop_per_s", the rate of the large dense product; empty
// for other metrics.
inline std::string dense_rate_type(const std::string& metric) {
  const std::string prefix = "kernels.", suffix = ".tflop_per_s";
  if (!metric.starts_with(prefix) || !metric.ends_with(suffix)) return "";
  return metric.substr(prefix.size(), metric.size() - prefix.size() - suffix.size());
}

}  // namespace gptqb
