// Codes packed on the GPU are those packed on the host, and come back on either.
#include <gtest/gtest.h>

#include "methods/kept_linear.h"
#include "methods/quant_config.h"
#include "methods/sweep_dispatch.h"

namespace gptqb {
namespace {

const at::Device kGpu("cuda:0");

QuantizedLinear linear_of(int64_t bits, int64_t rows, int64_t columns) {
  const int64_t levels = bits == QuantConfig::kTernary ? 3 : int64_t{1} << bits;
  QuantizedLinear linear;
  linear.bits = bits;
  linear.codes = at::randint(levels, {rows, columns}, at::kLong).to(at::kByte);
  if (bits == QuantConfig::kTernary) {
    linear.levels = at::tensor({-1.f, 0.f, 2.f}).repeat({rows, 1, 1}).contiguous();
  } else {
    linear.scales = at::rand({rows, 1}).add_(0.1);
    linear.zeros = at::full({rows, 1}, 1, at::kByte);
  }
  return linear;
}

TEST(KeptLinearCuda, PacksAsTheHostDoes) {
  at::manual_seed(1);
  for (const int64_t bits : {QuantConfig::kTernary, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{512, 1024}, {7, 13}}) {
      const LinearReplacement on_host = linear_of(bits, rows, columns);
      const LinearReplacement on_gpu = on_host.to(kGpu);
      const KeptLinear expected(on_host);
      const KeptLinear at_once(on_gpu);
      const KeptLinear queued = KeptLinear::queued(on_gpu);
      synchronize(kGpu);
      ASSERT_EQ(queued.tensors.size(), expected.tensors.size());
      for (const auto& [name, tensor] : expected.tensors) {
        EXPECT_TRUE(queued.tensors.at(name).is_pinned()) << name;
        EXPECT_TRUE(at::equal(queued.tensors.at(name), tensor)) << bits << " " << name;
        EXPECT_TRUE(at::equal(at_once.tensors.at(name), tensor)) << bits << " " << name;
      }
      const LinearReplacement back = queued.replacement(kGpu);
      EXPECT_TRUE(back.codes()->codes.is_cuda());
      EXPECT_TRUE(at::equal(back.codes()->codes.cpu(), on_host.codes()->codes)) << bits;
    }
}

}  // namespace
}  // namespace gptqb
