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

}  // namespace gptqb
