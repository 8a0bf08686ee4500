// Packed forms of single linears, against a packer that puts one number after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "models/bit_fields.h"
#include "models/compressed_tensors.h"
#include "models/gptq_tensors.h"
#include "tests/support/message.h"
#include "tests/support/slow_packer.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PackedLayer layer_of(const QuantizedLinear& linear, PackedFormat format, bool symmetric = false) {
  return {.format = format,
          .bits = linear.bits,
          .group_size = linear.group_size,
          .symmetric = symmetric,
          .act_order = linear.group_of_input.defined()};
}

QuantizedLinear unpacked(const GptqTensors& packed, const QuantizedLinear& like,
                         PackedFormat format) {
  return unpack_gptq(packed, layer_of(like, format), like.out_features(), like.in_features(),
                     "layer");
}

int64_t subtracted(PackedFormat format) { return format == PackedFormat::kGptq ? 1 : 0; }

void expect_bytes_and_round_trip(const RandomCodes& problem, PackedFormat format) {
  RandomCodes made = problem;
  made.least_zero = subtracted(format);
  const QuantizedLinear linear = made.make();
  const GptqTensors packed = pack_gptq(linear, format, "layer");
  const auto slow = slow_gptq(linear, subtracted(format));
  EXPECT_TRUE(same_tensor(packed.qweight, slow.at("qweight")));
  EXPECT_TRUE(same_tensor(packed.qzeros, slow.at("qzeros")));
  EXPECT_TRUE(same_tensor(packed.scales, slow.at("scales")));
  EXPECT_TRUE(same_tensor(packed.g_idx, slow.at("g_idx")));
  EXPECT_TRUE(same_linear(unpacked(packed, linear, format), linear));
}

// Every bits x group x symmetry x order x version. Static groups are the natural order.
TEST(GptqTensors, BytesAreThoseOfTheProtocolAndComeBack) {
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group_size : {-1, 32, 40, 128})
      for (const bool symmetric : {false, true})
        for (const bool act_order : {false, true})
          for (const PackedFormat format : {PackedFormat::kGptq, PackedFormat::kGptqV2}) {
            SCOPED_TRACE(std::to_string(bits) + " bits, groups of " + std::to_string(group_size) +
                         (symmetric ? ", symmetric" : "") + (act_order ? ", act-order, " : ", ") +
                         format_name(format));
            expect_bytes_and_round_trip({.out = 32,
                                         .in = 160,
                                         .bits = bits,
                                         .group_size = group_size,
                                         .symmetric = symmetric,
                                         .act_order = act_order},
                                        format);
          }
}

// PK-01, PK-08, PK-09: sizes that fill no whole words keep their logical shapes, and the last words
// hold what is left.
TEST(GptqTensors, OddSizesLoseNothing) {
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t out : {1, 5, 48})
      for (const int64_t in : {7, 33, 40}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, " + std::to_string(out) + " x " +
                     std::to_string(in));
        expect_bytes_and_round_trip({.out = out, .in = in, .bits = bits, .group_size = 16},
                                    PackedFormat::kGptqV2);
      }
  const auto rows = [](int64_t in) {
    return pack_gptq(RandomCodes{.out = 5, .in = in, .bits = 3, .group_size = -1}.make(),
                     PackedFormat::kGptqV2, "layer")
        .qweight.size(0);
  };
  EXPECT_EQ(rows(32), 3);
  EXPECT_EQ(rows(64), 6);
}

// PK-06: the highest code sets the sign bit of its word.
TEST(GptqTensors, CodesOf8BitsFillTheSignBit) {
  const at::Tensor codes = at::tensor({0, 127, 128, 255}, at::kByte).reshape({1, 4});
  const at::Tensor words = pack_fields(codes, 8, "codes");
  EXPECT_EQ(static_cast<uint32_t>(words[0][0].item<int32_t>()), 0xFF807F00u);
  EXPECT_TRUE(at::equal(unpack_fields(words, 8, 4), codes));
}

// PK-04: the words that everybody knows of symmetric 4-bit folders, and one meaning under both.
TEST(GptqTensors, VersionsDifferInZeroPointsAlone) {
  const QuantizedLinear linear = RandomCodes{.symmetric = true}.make();
  const GptqTensors v1 = pack_gptq(linear, PackedFormat::kGptq, "layer");
  const GptqTensors v2 = pack_gptq(linear, PackedFormat::kGptqV2, "layer");
  EXPECT_TRUE(v1.qzeros.eq(0x77777777).all().item<bool>());
  EXPECT_TRUE(v2.qzeros.eq(static_cast<int32_t>(0x88888888)).all().item<bool>());
  EXPECT_TRUE(at::equal(v1.qweight, v2.qweight));
  EXPECT_TRUE(at::equal(unpacked(v1, linear, PackedFormat::kGptq).dequantize(at::kFloat),
                        unpacked(v2, linear, PackedFormat::kGptqV2).dequantize(at::kFloat)));
}

TEST(GptqTensors, Version1HasNoZeroPointOfZero) {
  QuantizedLinear linear = RandomCodes{.least_zero = 1}.make();
  linear.zeros[3][1] = 0;
  EXPECT_THAT(message_of([&] { pack_gptq(linear, PackedFormat::kGptq, "blocks.7.up"); }),
              AllOf(HasSubstr("[blocks.7.up]"), HasSubstr("got 0 at [output 3, group 1]"),
                    HasSubstr("Write the format gptq_v2")));
  EXPECT_NO_THROW(pack_gptq(linear, PackedFormat::kGptqV2, "layer"));
}

// PK-12: zero points are stored whatever they are.
TEST(GptqTensors, ZeroPointsOfZeroAreStored) {
  QuantizedLinear linear = RandomCodes{}.make();
  linear.zeros.zero_();
  const GptqTensors packed = pack_gptq(linear, PackedFormat::kGptqV2, "layer");
  EXPECT_EQ(packed.qzeros.sizes().vec(), (std::vector<int64_t>{3, 8}));
  EXPECT_TRUE(packed.qzeros.eq(0).all().item<bool>());
  EXPECT_TRUE(same_linear(unpacked(packed, linear, PackedFormat::kGptqV2), linear));
}

// The field of all ones under v1 is 2^b to some readers and 0 to others.
TEST(GptqTensors, Version1WithAFullFieldIsRefused) {
  QuantizedLinear linear = RandomCodes{}.make();
  linear.zeros[2][0] = 15;
  GptqTensors packed = pack_gptq(linear, PackedFormat::kGptqV2, "layer");
  EXPECT_THAT(message_of([&] { unpacked(packed, linear, PackedFormat::kGptq); }),
              AllOf(HasSubstr("[layer.qzeros]"), HasSubstr("model.checkpoint_format: gptq_v2")));
}

// PK-05: what does not fit is refused, so that its neighbours stay as they are.
TEST(GptqTensors, CodesOutOfRangeAreRefused) {
  QuantizedLinear linear = RandomCodes{}.make();
  linear.codes[1][5] = 16;
  EXPECT_THAT(message_of([&] { pack_gptq(linear, PackedFormat::kGptqV2, "layer"); }),
              HasSubstr("[layer.codes] expected numbers of at most 15, got 16 at [1, 5]"));
}

// PK-11: nothing is narrowed to 0 or infinity.
TEST(GptqTensors, ScalesThatFloat16DoesNotHoldAreRefused) {
  for (const float scale : {1e-9f, 1e6f, 0.1f}) {
    QuantizedLinear linear = RandomCodes{}.make();
    linear.scales[4][2] = scale;
    EXPECT_THAT(message_of([&] { pack_gptq(linear, PackedFormat::kGptqV2, "layer"); }),
                AllOf(HasSubstr("[output 4, group 2]"), HasSubstr("quant.scale_dtype: float16")));
  }
  QuantizedLinear linear = RandomCodes{}.make();
  GptqTensors packed = pack_gptq(linear, PackedFormat::kGptqV2, "layer");
  packed.scales[2][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of([&] { unpacked(packed, linear, PackedFormat::kGptqV2); }),
              AllOf(HasSubstr("[layer.scales]"), HasSubstr("[output 4, group 2]")));
}

// GG-05: the index decides, not the place of a column. GG-07, GG-08: one that says nothing, or that
// is absent, is natural order.
TEST(GptqTensors, TheGroupIndexIsHonoured) {
  QuantizedLinear linear = RandomCodes{.act_order = true}.make();
  const auto weights =
      unpacked(pack_gptq(linear, PackedFormat::kGptqV2, "layer"), linear, PackedFormat::kGptqV2)
          .dequantize(at::kFloat);
  EXPECT_TRUE(at::equal(weights, linear.dequantize(at::kFloat)));
  linear.group_of_input.reset();
  EXPECT_FALSE(at::equal(weights, linear.dequantize(at::kFloat)));

  QuantizedLinear whole_row = RandomCodes{.group_size = -1}.make();
  GptqTensors packed = pack_gptq(whole_row, PackedFormat::kGptqV2, "layer");
  EXPECT_TRUE(packed.g_idx.eq(0).all().item<bool>());
  EXPECT_FALSE(unpacked(packed, whole_row, PackedFormat::kGptqV2).group_of_input.defined());

  QuantizedLinear grouped = RandomCodes{}.make();
  packed = pack_gptq(grouped, PackedFormat::kGptqV2, "layer");
  packed.g_idx.reset();
  EXPECT_TRUE(same_linear(unpacked(packed, grouped, PackedFormat::kGptqV2), grouped));
  packed.g_idx = at::full({96}, 3, at::kInt);
  EXPECT_THAT(message_of([&] { unpacked(packed, grouped, PackedFormat::kGptqV2); }),
              AllOf(HasSubstr("[layer.g_idx]"), HasSubstr("expected groups in 0 .. 2, got 3")));
}

TEST(GptqTensors, ShapesAreHeldAgainstTheLayer) {
  const QuantizedLinear linear = RandomCodes{}.make();
  const GptqTensors packed = pack_gptq(linear, PackedFormat::kGptqV2, "layer");
  PackedLayer other = layer_of(linear, PackedFormat::kGptqV2);
  other.bits = 8;
  EXPECT_THAT(
      message_of([&] { unpack_gptq(packed, other, 64, 96, "layer"); }),
      AllOf(HasSubstr("[layer.qweight]"), HasSubstr("expected shape [24, 64], got [12, 64]")));
  other = layer_of(linear, PackedFormat::kGptqV2);
  other.act_order = true;
  GptqTensors without = packed;
  without.g_idx.reset();
  EXPECT_THAT(message_of([&] { unpack_gptq(without, other, 64, 96, "layer"); }),
              HasSubstr("[layer.g_idx] expected a tensor of shape [96], got none"));
}

TEST(GptqTensors, TernaryCodesAreRefused) {
  QuantizedLinear linear;
  linear.codes = at::zeros({2, 16}, at::kByte);
  linear.levels = at::zeros({2, 1, 3});
  linear.bits = 0;
  EXPECT_THAT(message_of([&] { pack_gptq(linear, PackedFormat::kGptqV2, "layer"); }),
              HasSubstr("got ternary ones"));
}

TEST(CompressedTensors, UnpackingGivesBackWhatTheProtocolPacks) {
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group_size : {-1, 32})
      for (const bool symmetric : {false, true})
        for (const bool act_order : {false, true}) {
          SCOPED_TRACE(std::to_string(bits) + " bits, groups of " + std::to_string(group_size));
          const QuantizedLinear linear = RandomCodes{.out = 36,
                                                     .in = 160,
                                                     .bits = bits,
                                                     .group_size = group_size,
                                                     .symmetric = symmetric,
                                                     .act_order = act_order}
                                             .make();
          const auto slow = slow_compressed(linear, symmetric);
          const auto part = [&](const char* name) {
            const auto found = slow.find(name);
            return found == slow.end() ? at::Tensor() : found->second;
          };
          const QuantizedLinear back = unpack_compressed(
              {.weight_packed = part("weight_packed"),
               .weight_scale = part("weight_scale"),
               .weight_zero_point = part("weight_zero_point"),
               .weight_shape = part("weight_shape"),
               .weight_g_idx = part("weight_g_idx")},
              layer_of(linear, PackedFormat::kCompressedTensors, symmetric), 36, 160, "layer");
          EXPECT_TRUE(same_linear(back, linear));
        }
}

}  // namespace
}  // namespace gptqb::test
