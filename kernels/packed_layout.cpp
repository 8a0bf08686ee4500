#include "kernels/packed_layout.h"

#include <array>

#include "common/error.h"
#include "common/text.h"
#include "kernels/row_layout.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr std::array kLayouts = {
    PackedLayout{"rows", rows_shape, rows_bytes, pack_rows, unpack_rows},
    PackedLayout{"tiles", tiles_shape, tiles_bytes, pack_tiles, unpack_tiles},
};

}  // namespace

const PackedLayout& packed_layout(std::string_view name) {
  std::vector<std::string> names;
  for (const PackedLayout& layout : kLayouts) {
    if (layout.name == name) return layout;
    names.emplace_back(layout.name);
  }
  throw Error("layout", unknown_name(name, names));
}

}  // namespace gptqb::kernels
