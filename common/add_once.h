// Lists in which each item stands once, in the order in which it first came.
#pragma once

#include <algorithm>
#include <vector>

namespace gptqb {

// Appends `item` to `list` unless it is there.
template <typename Item>
void add_once(const Item& item, std::vector<Item>& list) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace gptqb
