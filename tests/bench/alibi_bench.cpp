// Attention with ALiBi on a GPU: the ways there are, beside attention without biases and the dense
// rate; and BLOOM's first product of the MLP with its GELU, apart and in the product's registers.
//
//   bench_alibi [REPETITIONS] [HEADS HEAD_DIM SEQUENCES SEQLEN]     default 9, 32 128 16 2048
//
// float16, random values. CSV on stdout: medians, smallest and largest in seconds, and nanoseconds
// a token. A way that this ATen, cuDNN or device does not take says so.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "methods/clock.h"
#include "models/alibi_attention.h"
#include "models/forward_ops.h"
#include "models/fused_alibi.h"
#include "tests/bench/bench_clock.h"

namespace gptqb {
namespace {

constexpr int kWarmUps = 3;
constexpr int64_t kDense = 8192;

class Ways {
 public:
  Ways(int repetitions, int64_t tokens) : repetitions_(repetitions), tokens_(tokens) {
    std::puts("way,median_s,least_s,most_s,ns_a_token");
  }

  double time(const std::string& name, const std::function<at::Tensor()>& work) const {
    std::vector<double> seconds;
    try {
      for (int i = 0; i < kWarmUps; ++i) work();
      for (int i = 0; i < repetitions_; ++i) {
        const Stopwatch watch(at::Device(at::kCUDA, 0));
        work();
        seconds.push_back(watch.seconds());
      }
    } catch (const std::exception& error) {
      std::printf("%s,refused: %s\n", name.c_str(),
                  std::string(error.what()).substr(0, 120).c_str());
      return 0;
    }
    const Spread spread = spread_of(seconds);
    std::printf("%s,%.6f,%.6f,%.6f,%.1f\n", name.c_str(), spread.median, spread.least, spread.most,
                spread.median * 1e9 / static_cast<double>(tokens_));
    std::fflush(stdout);
    return spread.median;
  }

 private:
  int repetitions_;
  int64_t tokens_;
};

void run(int repetitions, int64_t heads, int64_t head_dim, int64_t sequences, int64_t seqlen) {
  const c10::InferenceMode inference;
  const at::Device device(at::kCUDA, 0);
  const auto options = at::TensorOptions().dtype(at::kHalf).device(device);
  const int64_t hidden = heads * head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const auto fused = at::randn({sequences, seqlen, 3 * hidden}, options);
  const auto parts = fused.view({sequences, seqlen, heads, 3, head_dim}).permute({3, 0, 2, 1, 4});
  const Ways ways(repetitions, sequences * seqlen);

  const auto square = at::randn({kDense, kDense}, options);
  const double dense = ways.time("dense product of 8192", [&] { return at::mm(square, square); });
  std::printf("dense rate,%.1f TFLOP/s\n",
              2e-12 * static_cast<double>(kDense * kDense * kDense) / dense);

  AlibiAttention eager(heads, at::kHalf, device);
  ways.time("as transformers rounds", [&] { return eager.mix(fused); });
  for (const int64_t columns : {int64_t{8}, int64_t{32}, int64_t{64}, int64_t{128}}) {
    if (head_dim + columns > 256) continue;
    FusedAlibi longer(heads, at::kHalf, device, columns);
    ways.time("fused, " + std::to_string(head_dim + columns) + " a head",
              [&] { return longer.mix(fused); });
  }
  ways.time("no biases", [&] {
    return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true, scale);
  });
  const auto by_token = [&](int64_t which) { return parts[which].transpose(1, 2); };
  const auto longer = at::zeros({3, sequences, seqlen, heads, head_dim + 8}, options);
  ways.time("flash, all longer by 8, already so", [&] {
    return std::get<0>(at::_flash_attention_forward(longer[0], longer[1], longer[2], {}, {}, seqlen,
                                                    seqlen, 0.0, true, false, scale));
  });
  ways.time("flash with slopes", [&] {
    const auto slopes = alibi_slopes(heads, device);
    return std::get<0>(at::_flash_attention_forward(by_token(0), by_token(1), by_token(2), {}, {},
                                                    seqlen, seqlen, 0.0, true, false, scale, {}, {},
                                                    {}, slopes));
  });
  // Biases in 16 bits, and so not what is asked for: for comparison alone.
  const auto bias = (alibi_slopes(heads, device).view({1, heads, 1, 1}) *
                     at::arange(seqlen, options.dtype(at::kFloat)))
                        .to(at::kHalf);
  ways.time("memory-efficient with biases in float16", [&] {
    return std::get<0>(at::_efficient_attention_forward(
        by_token(0), by_token(1), by_token(2), bias.expand({sequences, heads, seqlen, seqlen}), {},
        {}, {}, {}, 0.0, /*custom_mask_type=*/1, false, scale));
  });

  const auto x = at::randn({sequences * seqlen, hidden}, options);
  const auto weight = at::randn({4 * hidden, hidden}, options).mul_(0.02);
  const auto shift = at::randn({4 * hidden}, options);
  ways.time("product of the MLP", [&] { return at::linear(x, weight, shift); });
  ways.time("product, then GELU as transformers rounds", [&] {
    auto inner = at::linear(x, weight, shift);
    bloom_gelu(inner);
    return inner;
  });
  ways.time("product with GELU in its registers",
            [&] { return at::_addmm_activation(shift, x, weight.t(), 1, 1, /*use_gelu=*/true); });
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) {
  const auto number = [&](int at, int64_t otherwise) {
    return argc > at ? std::atoll(argv[at]) : otherwise;
  };
  gptqb::run(static_cast<int>(number(1, 9)), number(2, 32), number(3, 128), number(4, 16),
             number(5, 2048));
}
