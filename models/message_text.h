// Pieces of text that messages about tensors are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/text.h"

namespace gptqb {

// "[3, 17]": a shape, or a position in a tensor.
inline std::string shape_text(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

// "[3, 17]" of a position in row-major order.
inline std::string index_text(int64_t position, const std::vector<int64_t>& shape) {
  std::string text;
  for (size_t i = shape.size(); i-- > 0;) {
    text = std::to_string(position % shape[i]) + (text.empty() ? "" : ", ") + text;
    position /= shape[i];
  }
  return "[" + text + "]";
}

// "a, b, c, d, e and 7 more".
inline std::string shorten_list(std::vector<std::string> names) {
  constexpr size_t kNamesShown = 5;
  const size_t count = names.size();
  names.resize(std::min(count, kNamesShown));
  const std::string more =
      count > kNamesShown ? " and " + std::to_string(count - kNamesShown) + " more" : "";
  return join(names, ", ") + more;
}

}  // namespace gptqb
