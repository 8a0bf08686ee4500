#pragma once

namespace gptqb::kernels {

// The 16-bit floating-point types that models and activations come in.
enum class HalfType { kFloat16, kBFloat16 };

}  // namespace gptqb::kernels
