// The packed layouts by their names.
#pragma once

#include <string_view>

#include "kernels/packed_weight.h"
#include "kernels/packing.h"
#include "kernels/quant_view.h"

namespace gptqb::kernels {

struct PackedLayout {
  std::string_view name;  // as MatmulKernel::layout() says it
  PackedShape (*shape)(const QuantView&) = nullptr;
  PackedBytes (*bytes)(const PackedShape&) = nullptr;
  void (*pack)(const QuantView&, const PackedShape&, const PackedParts&) = nullptr;
  void (*unpack)(const PackedView&, const CanonicalParts&) = nullptr;
};

// Throws Error with the known names.
const PackedLayout& packed_layout(std::string_view name);

}  // namespace gptqb::kernels
