// Codes packed to their bits come back, and take no more bytes than they have bits.
#include "methods/kept_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/error.h"
#include "methods/quant_config.h"
#include "tests/support/message.h"
#include "tests/support/peak_bytes.h"
#include "tests/support/problems.h"

namespace gptqb {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor bytes(std::initializer_list<int64_t> values) {
  return at::tensor(std::vector<int64_t>(values), at::kLong).to(at::kByte);
}

// Written out by hand: byte i of 4 bits holds codes i and i + 4 of 8; 3 bits are the two low bits
// of codes 0, 2, 4, 6 and of 1, 3, 5, 7, and a byte of all high bits.
TEST(KeptLinear, CodesArePackedFieldByField) {
  const at::Tensor codes = bytes({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(at::equal(pack_codes(codes, 4), bytes({0x40, 0x51, 0x62, 0x73})));
  EXPECT_TRUE(at::equal(pack_codes(codes, 3), bytes({0b10001000, 0b11011101, 0b11110000})));
  EXPECT_TRUE(at::equal(pack_codes(bytes({3, 0, 1, 2, 0, 1, 3, 3}), 2),
                        bytes({0b11000111 & 0xFF, 0b11011000})));
  EXPECT_TRUE(at::equal(pack_codes(codes, 8), codes));
}

TEST(KeptLinear, EveryCodeOfEveryWidthComesBack) {
  for (const int64_t bits : {QuantConfig::kTernary, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}})
    for (const int64_t count : {0, 1, 7, 8, 9, 1000, 4096}) {
      const int64_t levels = bits == QuantConfig::kTernary ? 3 : int64_t{1} << bits;
      const at::Tensor codes = at::arange(count, at::kLong).mul_(7).remainder(levels).to(at::kByte);
      const at::Tensor packed = pack_codes(codes, bits);
      EXPECT_TRUE(at::equal(unpack_codes(packed, bits, count), codes)) << bits << " " << count;
      const int64_t stored = bits == QuantConfig::kTernary ? 2 : bits;
      EXPECT_EQ(packed.numel(), stored == 8 ? count : (count + 7) / 8 * stored);
    }
}

TEST(KeptLinear, ALinearComesBackInAThirdOfItsBytes) {
  QuantizedLinear linear;
  linear.bits = 3;
  linear.codes = at::arange(5 * 11, at::kLong).remainder(8).to(at::kByte).reshape({5, 11});
  linear.scales = at::full({5, 1}, 0.5, at::kFloat);
  linear.zeros = at::full({5, 1}, 3, at::kByte);
  const KeptLinear kept{LinearReplacement(linear)};
  EXPECT_EQ(kept.tensors.at("packed").numel(), 7 * 3);  // 55 codes in sevenths of eight
  const LinearReplacement back = kept.replacement();
  back.validate("layer");
  EXPECT_TRUE(at::equal(back.codes()->codes, linear.codes));
  EXPECT_TRUE(at::equal(back.codes()->scales, linear.scales));
  EXPECT_EQ(back.codes()->bits, 3);
}

QuantizedLinear large_linear(int64_t bits) {
  QuantizedLinear linear;
  linear.bits = bits;
  linear.codes = at::zeros({512, 1024}, at::kByte);
  linear.codes[3][5] = 2;
  if (bits == QuantConfig::kTernary) {
    linear.levels = at::tensor({-1.f, 0.f, 1.f}).repeat({512, 1, 1}).contiguous();
  } else {
    linear.scales = at::full({512, 1}, 0.5, at::kFloat);
    linear.zeros = at::full({512, 1}, 1, at::kByte);
  }
  return linear;
}

// Finished blocks are checked whenever they are read; what they unpack to is many times larger.
TEST(KeptLinear, IsCheckedWithoutBeingUnpacked) {
  for (const int64_t bits : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}}) {
    const KeptLinear kept{LinearReplacement(large_linear(bits))};
    EXPECT_LT(test::peak_bytes_of([&] { kept.validate("layer"); }), 512 * 1024 / 16) << bits;
  }
  const KeptLinear ternary{LinearReplacement(large_linear(QuantConfig::kTernary))};
  EXPECT_LT(test::peak_bytes_of([&] { ternary.validate("layer"); }), 512 * 1024);
}

TEST(KeptLinear, WhatIsWrongWithItIsSaid) {
  const auto fault_of = [](const std::function<void(KeptLinear&)>& damage, int64_t bits = 3) {
    KeptLinear kept{LinearReplacement(large_linear(bits))};
    for (auto& [name, tensor] : kept.tensors) tensor = tensor.clone();
    damage(kept);
    return test::message_of([&] { kept.validate("layer"); });
  };
  const auto of = [](const char* name, KeptLinear& kept) -> at::Tensor& {
    return kept.tensors.at(name);
  };
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { of("scales", kept)[7][0] = -1; }),
              HasSubstr("scales: expected finite values above 0"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { of("zeros", kept)[7][0] = 8; }),
              HasSubstr("zeros: expected values of at most 7, got 8"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { kept.tensors.erase("zeros"); }),
              HasSubstr("zeros: expected a tensor, got none"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) {
                of("packed", kept) = bytes({1, 2, 3});
              }),
              HasSubstr("expected bytes for 524288 codes of 3 bits, got 3"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { kept.tensors.erase("packed"); }),
              HasSubstr("codes: expected a matrix [out, in], got none"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { kept.bits = 9; }),
              HasSubstr("bits: expected 1 to 8 or ternary, got 9"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { kept.columns = 1000; }),
              HasSubstr("expected bytes for 512000 codes"));
  EXPECT_THAT(fault_of([&](KeptLinear& kept) { of("packed", kept)[9] = 0b00110000; },
                       QuantConfig::kTernary),
              HasSubstr("codes: expected values of at most 2, got 3"));
  EXPECT_EQ(fault_of([&](KeptLinear& kept) { of("packed", kept)[9] = 0b10011000; },
                     QuantConfig::kTernary),
            "nothing was thrown");
}

TEST(KeptLinear, TooFewBytesAreRefused) {
  EXPECT_THAT(
      [] {
        unpack_codes(bytes({1, 2, 3}), 4, 8);
      },
      ThrowsMessage<Error>(HasSubstr("expected bytes for 8 codes of 4 bits, got 3")));
}

}  // namespace
}  // namespace gptqb
