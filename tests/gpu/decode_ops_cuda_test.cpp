// The small operations of a writing step against the same in float64 on the host, and in memory
// between guards.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/decode.h"
#include "models/alibi_columns.h"
#include "models/decode_ops.h"

namespace gptqb {
namespace {

const at::Device kGpu("cuda:0");

at::TensorOptions on_gpu(at::ScalarType dtype) { return at::TensorOptions(dtype).device(kGpu); }

// Half the distance of neighbouring numbers, relative.
double rounding(at::ScalarType dtype) { return dtype == at::kHalf ? 0x1p-11 : 0x1p-8; }

at::Tensor exact(const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); }

class DecodeOpsCuda : public testing::TestWithParam<at::ScalarType> {};

TEST_P(DecodeOpsCuda, AddNormRoundsWhereTensorOperationsDo) {
  const c10::InferenceMode inference;
  at::manual_seed(1);
  const at::ScalarType dtype = GetParam();
  for (const int64_t width : {8, 64, 576, 4096, 4104, 5120, 8192, 12288, 16384})
    for (const int64_t rows : {1, 3, 64})
      for (const bool rms : {true, false})
        for (const bool affine : {true, false}) {
          if (rms && !affine) continue;
          SCOPED_TRACE(testing::Message() << rows << " x " << width << (rms ? " rms" : " layer"));
          // A mean far from 0, where squares of a layer norm cancel.
          const auto before = at::randn({rows, 1, width}, on_gpu(dtype)) * 3 + 20;
          const auto delta = at::randn({rows, 1, width}, on_gpu(dtype));
          Norm norm{.epsilon = 1e-5, .rms = rms};
          if (affine) norm.scale = at::randn({width}, on_gpu(dtype));
          if (affine && !rms) norm.shift = at::randn({width}, on_gpu(dtype));
          at::Tensor residual = before.clone();
          const at::Tensor got = add_norm(residual, delta, norm);
          EXPECT_TRUE(residual.equal(before + delta));
          const at::Tensor x = exact(residual);
          at::Tensor wanted, factor = affine ? exact(norm.scale) : at::ones({width}, at::kDouble);
          if (rms) {
            wanted = x / (x.square().mean(-1, true) + 1e-5).sqrt() * factor;
          } else {
            const at::Tensor from_mean = x - x.mean(-1, true);
            wanted = from_mean / (from_mean.square().mean(-1, true) + 1e-5).sqrt() * factor;
          }
          // Rounded once more in an RMS norm; sums of float32 move the rest by far less.
          const at::Tensor allowed = wanted.abs() * rounding(dtype) * (rms ? 2.1 : 1.02) + 2e-6;
          if (norm.shift.defined()) {
            wanted = wanted + exact(norm.shift);
            EXPECT_TRUE(((exact(got) - wanted).abs() <=
                         allowed + wanted.abs() * rounding(dtype) * 1.02 + 2e-5)
                            .all()
                            .item<bool>());
          } else {
            EXPECT_TRUE(((exact(got) - wanted).abs() <= allowed + 2e-5).all().item<bool>());
          }
          at::Tensor again = residual.clone();
          const at::Tensor alone = add_norm(again, {}, norm);
          EXPECT_TRUE(again.equal(residual)) << "nothing was to be added";
          EXPECT_TRUE(alone.equal(got));
        }
}

TEST_P(DecodeOpsCuda, ReluEqualsATensorOperation) {
  const c10::InferenceMode inference;
  for (const int64_t count : {1, 8, 4096, 4104, 196608}) {
    at::Tensor x = at::randn({count}, on_gpu(GetParam()));
    if (count > 8) {
      x[3] = std::numeric_limits<double>::quiet_NaN();
      x[4] = -std::numeric_limits<double>::infinity();
      x[5] = std::numeric_limits<double>::infinity();
    }
    const at::Tensor wanted = at::relu(x);
    relu_in_place(x);
    EXPECT_TRUE(at::allclose(x, wanted, 0, 0, /*equal_nan=*/true)) << count;
  }
}

TEST_P(DecodeOpsCuda, LargestPlacesAreTheFirstOfTheLargest) {
  const c10::InferenceMode inference;
  at::manual_seed(2);
  for (const int64_t columns : {1, 7, 8, 1000, 32000, 50272, 50277})
    for (const int64_t rows : {1, 5}) {
      at::Tensor x = at::randn({rows, columns}, on_gpu(GetParam()));
      EXPECT_TRUE(largest_places(x).cpu().equal(x.to(at::kFloat).cpu().argmax(-1, true)))
          << rows << " x " << columns;
      const int64_t first = columns / 3, second = columns - 1;
      x.select(1, second).fill_(100);
      x.select(1, first).fill_(100);
      EXPECT_TRUE(largest_places(x).eq(first).all().item<bool>());
      x.select(1, second).fill_(std::numeric_limits<double>::quiet_NaN());
      EXPECT_TRUE(largest_places(x).eq(second).all().item<bool>());
      x.fill_(-std::numeric_limits<double>::infinity());
      EXPECT_TRUE(largest_places(x).eq(0).all().item<bool>());
    }
}

struct Case {
  int64_t batch, heads, kv_heads, head_dim, length;
  bool rotated, biased, joined;
  double query_scale = 1;
};

// As DecodeAttention defines it, in float64 of rounded queries, keys and values.
at::Tensor attention_oracle(const Case& of, const NewTokens& tokens, const at::Tensor& keys,
                            const at::Tensor& values) {
  const int64_t sharing = of.heads / of.kv_heads;
  at::Tensor scores = at::matmul(exact(tokens.queries).transpose(1, 2) * tokens.score_scale,
                                 exact(keys).repeat_interleave(sharing, 1).transpose(2, 3));
  if (of.biased)
    scores =
        scores + exact(tokens.slopes).view({1, -1, 1, 1}) * at::arange(of.length + 1, at::kDouble);
  return at::matmul(scores.softmax(-1), exact(values).repeat_interleave(sharing, 1))
      .transpose(1, 2)
      .reshape({of.batch, 1, of.heads * of.head_dim});
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const int64_t half = x.size(3) / 2;
  const auto low = x.narrow(3, 0, half), high = x.narrow(3, half, half);
  return at::cat({low * cosines - high * sines, high * cosines + low * sines}, 3);
}

TEST_P(DecodeOpsCuda, AttentionOfNewTokensIsThatOfTheWholeText) {
  const c10::InferenceMode inference;
  at::manual_seed(3);
  const at::ScalarType dtype = GetParam();
  for (const Case& of : std::vector<Case>{{1, 1, 1, 16, 0, false, false, false},
                                          {1, 4, 4, 64, 1, true, false, true},
                                          {2, 6, 2, 64, 63, true, false, true},
                                          {1, 32, 32, 128, 200, true, false, true},
                                          {1, 32, 32, 128, 255, true, false, false},
                                          {3, 9, 3, 64, 256, true, false, true},
                                          {1, 8, 1, 80, 300, true, false, true},
                                          {2, 4, 4, 160, 77, false, false, true, 0.079},
                                          {1, 3, 3, 256, 511, true, false, false},
                                          {1, 96, 96, 128, 130, false, false, true, 0.088},
                                          {2, 8, 8, 64, 400, false, true, true},
                                          {64, 12, 12, 64, 129, true, false, true},
                                          {1, 2, 2, 128, 5000, true, false, true}}) {
    SCOPED_TRACE(testing::Message() << of.batch << " x " << of.heads << "/" << of.kv_heads << " x "
                                    << of.head_dim << " behind " << of.length);
    KvCache cache({.blocks = 2,
                   .batch = of.batch,
                   .kv_heads = of.kv_heads,
                   .positions = of.length + 2,
                   .head_dim = of.head_dim},
                  dtype, kGpu);
    const auto past = [&] {
      return at::randn({of.batch, of.kv_heads, of.length + 1, of.head_dim}, on_gpu(dtype));
    };
    const at::Tensor keys = past(), values = past();
    // Beyond what is written there is nothing that may be read.
    for (const int64_t block : {0, 1}) {
      cache.all_keys(block).fill_(std::numeric_limits<double>::quiet_NaN());
      cache.all_values(block).fill_(std::numeric_limits<double>::quiet_NaN());
    }
    if (of.length > 0) {
      cache.extend(of.length);
      cache.put(1, keys.narrow(2, 0, of.length), values.narrow(2, 0, of.length));
    }
    cache.extend(1);
    NewTokens tokens;
    const int64_t rows = of.heads + 2 * of.kv_heads;
    // Side by side, as joined linears leave them, or each by itself.
    const at::Tensor all = at::randn({of.batch, 1, rows, of.head_dim}, on_gpu(dtype));
    tokens.queries = all.narrow(2, 0, of.heads);
    tokens.keys = all.narrow(2, of.heads, of.kv_heads);
    tokens.values = all.narrow(2, of.heads + of.kv_heads, of.kv_heads);
    if (!of.joined)
      for (at::Tensor* part : {&tokens.queries, &tokens.keys, &tokens.values})
        *part = part->contiguous();
    tokens.score_scale = of.query_scale == 1 ? 1 / std::sqrt(of.head_dim) : 1;
    tokens.query_scale = of.query_scale;
    NewTokens plain = tokens;
    if (of.rotated) {
      const auto angles = at::randn({1, of.head_dim / 2}, on_gpu(at::kFloat)) * 3;
      tokens.cosines = angles.cos().to(dtype);
      tokens.sines = angles.sin().to(dtype);
      plain.queries = rotated(tokens.queries, tokens.cosines, tokens.sines);
      plain.keys = rotated(tokens.keys, tokens.cosines, tokens.sines);
    }
    if (of.query_scale != 1) plain.queries = plain.queries * of.query_scale;
    if (of.biased) tokens.slopes = plain.slopes = alibi_slopes(of.heads, kGpu).to(at::kFloat);

    const at::Tensor got = attend_new_tokens(cache, 1, tokens);
    keys.narrow(2, of.length, 1).copy_(plain.keys.transpose(1, 2));
    values.narrow(2, of.length, 1).copy_(plain.values.transpose(1, 2));
    EXPECT_TRUE(cache.all_keys(1).narrow(2, 0, of.length + 1).equal(keys));
    EXPECT_TRUE(cache.all_values(1).narrow(2, 0, of.length + 1).equal(values));
    EXPECT_TRUE(cache.all_keys(1).narrow(2, of.length + 1, 1).isnan().all().item<bool>());
    EXPECT_TRUE(cache.all_keys(0).isnan().all().item<bool>());
    const at::Tensor wanted = attention_oracle(of, plain, keys, values);
    // A result is a mean of values that are of the size of one: float32 sums and exponentials of
    // scores up to some tens, and one rounding.
    const at::Tensor allowed = wanted.abs() * rounding(dtype) * 1.01 + 3e-5;
    EXPECT_TRUE(((exact(got) - wanted).abs() <= allowed).all().item<bool>())
        << (exact(got) - wanted).abs().max().item<double>();
    EXPECT_TRUE(attend_new_tokens(cache, 1, tokens).equal(got));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DecodeOpsCuda, testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& of) {
                           return std::string(of.param == at::kHalf ? "float16" : "bfloat16");
                         });

}  // namespace
}  // namespace gptqb
