#include "methods/kept_linear.h"

#include <ATen/Parallel.h>

#include "common/error.h"
#include "methods/quant_config.h"

namespace gptqb {
namespace {

constexpr const char* kCodes = "codes";
constexpr const char* kPacked = "packed";
constexpr int64_t kByteBits = 8;

int64_t stored_bits(int64_t bits) { return bits == QuantConfig::kTernary ? 2 : bits; }

// A code is cut into fields of 4, 2 and 1 bits, as many as its width has: so wide that whole
// fields fill a byte. Calls action(width, bits below the field).
template <class Action>
void for_each_field(int64_t bits, const Action& action) {
  int64_t below = 0;
  for (const int64_t width : {8, 4, 2, 1})
    if ((bits & width) != 0) {
      action(width, below);
      below += width;
    }
}

int64_t padded(int64_t count) { return (count + kByteBits - 1) / kByteBits * kByteBits; }

void expect_packed(const at::Tensor& packed, int64_t bits, int64_t count) {
  bits = stored_bits(bits);
  if (packed.dim() != 1 || packed.scalar_type() != at::kByte ||
      packed.size(0) != (bits == kByteBits ? count : padded(count) / kByteBits * bits))
    throw Error("packed codes", "expected bytes for " + std::to_string(count) + " codes of " +
                                    std::to_string(bits) + " bits, got " +
                                    std::to_string(packed.numel()) + " values");
}

// Whether a byte of four ternary codes has one with both bits set: 3, which is none.
bool holds_no_ternary_code(const at::Tensor& packed) {
  const auto both = packed.bitwise_and(packed.bitwise_right_shift(1)).bitwise_and_(0b01010101);
  return both.any().item<bool>();
}

at::Tensor on_host(const at::Tensor& tensor, bool queued) {
  if (tensor.is_cpu() || !queued) return tensor.to(at::kCPU);
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true))
      .copy_(tensor, /*non_blocking=*/true);
}

// Ors a field of `length` bytes into its codes. One pass, where tensor operations would fill three
// more arrays of that size for each piece.
void unpack_field(const uint8_t* from, int64_t length, int64_t width, int64_t below,
                  uint8_t* codes) {
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  at::parallel_for(0, length, int64_t{1} << 16, [&](int64_t begin, int64_t end) {
    for (int64_t piece = 0; piece < kByteBits / width; ++piece) {
      uint8_t* const to = codes + piece * length;
      for (int64_t i = begin; i < end; ++i)
        to[i] |= static_cast<uint8_t>((from[i] >> (piece * width) & mask) << below);
    }
  });
}

}  // namespace

at::Tensor pack_codes(const at::Tensor& codes, int64_t bits) {
  bits = stored_bits(bits);
  at::Tensor flat = codes.reshape({-1});
  const int64_t count = flat.size(0);
  if (bits == kByteBits) return flat;
  if (padded(count) != count) flat = at::constant_pad_nd(flat, {0, padded(count) - count});
  at::Tensor packed = at::empty({padded(count) / kByteBits * bits}, flat.options());
  int64_t begin = 0;
  for_each_field(bits, [&](int64_t width, int64_t below) {
    // Byte i takes the fields of codes i, i + n, i + 2 n, ...: whole runs of codes at a time.
    const int64_t pieces = kByteBits / width;
    const int64_t length = flat.size(0) / pieces;
    at::Tensor target = packed.narrow(0, begin, length).zero_();
    for (int64_t piece = 0; piece < pieces; ++piece)
      target.bitwise_or_(flat.narrow(0, piece * length, length)
                             .bitwise_right_shift(below)
                             .bitwise_and_((int64_t{1} << width) - 1)
                             .bitwise_left_shift_(piece * width));
    begin += length;
  });
  return packed;
}

at::Tensor unpack_codes(const at::Tensor& packed, int64_t bits, int64_t count) {
  expect_packed(packed, bits, count);
  bits = stored_bits(bits);
  if (bits == kByteBits) return packed;
  at::Tensor codes = at::zeros({padded(count)}, packed.options());
  int64_t begin = 0;
  for_each_field(bits, [&](int64_t width, int64_t below) {
    const int64_t pieces = kByteBits / width;
    const int64_t length = codes.size(0) / pieces;
    const at::Tensor source = packed.narrow(0, begin, length);
    if (packed.is_cpu())
      unpack_field(source.const_data_ptr<uint8_t>(), length, width, below,
                   codes.mutable_data_ptr<uint8_t>());
    else
      for (int64_t piece = 0; piece < pieces; ++piece)
        codes.narrow(0, piece * length, length)
            .bitwise_or_(source.bitwise_right_shift(piece * width)
                             .bitwise_and_((int64_t{1} << width) - 1)
                             .bitwise_left_shift_(below));
    begin += length;
  });
  return codes.narrow(0, 0, count);
}

KeptLinear::KeptLinear(const LinearReplacement& replacement, bool is_queued)
    : rows(replacement.out_features()), columns(replacement.in_features()) {
  if (const QuantizedLinear* quantized = replacement.codes()) {
    bits = quantized->bits;
    group_size = quantized->group_size;
  }
  for (const auto& [name, tensor] : replacement.tensors())
    if (name == kCodes)
      tensors[kPacked] = on_host(pack_codes(tensor, bits), is_queued);
    else
      tensors[name] = on_host(tensor, is_queued);
}

LinearReplacement KeptLinear::replacement(at::Device device) const {
  auto unpacked = tensors;
  for (auto& [name, tensor] : unpacked) tensor = tensor.to(device);
  if (const auto packed = unpacked.extract(kPacked); !packed.empty())
    unpacked[kCodes] =
        unpack_codes(packed.mapped(), bits, rows * columns).reshape({rows, columns}).contiguous();
  return LinearReplacement::from_tensors(unpacked, bits, group_size);
}

// Packed codes cannot exceed their bits, but for ternary ones.
void KeptLinear::validate(const std::string& where) const {
  auto beside = tensors;
  const auto packed = beside.extract(kPacked);
  if (packed.empty()) {
    replacement().validate(where);
    return;
  }
  LinearReplacement::from_tensors(beside, bits, group_size).validate_grids(where, rows, columns);
  expect_packed(packed.mapped(), bits, rows * columns);
  if (bits == QuantConfig::kTernary && holds_no_ternary_code(packed.mapped()))
    throw Error(where, "codes: expected values of at most 2, got 3");
}

}  // namespace gptqb
