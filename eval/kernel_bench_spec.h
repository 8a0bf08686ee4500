// Which products of packed weights are measured. No tensors: a cell of an experiment holds one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/half_type.h"

namespace gptqb {

struct KernelShape {
  int64_t k = 0;  // in features
  int64_t n = 0;  // out features
  std::string text() const { return std::to_string(k) + "x" + std::to_string(n); }
  bool operator==(const KernelShape&) const = default;
};

// Every combination of the lists is a problem.
struct KernelBenchSpec {
  std::vector<KernelShape> shapes;
  std::vector<int64_t> m = {1, 16};
  std::vector<int64_t> bits = {4};
  std::vector<int64_t> group_sizes = {128};
  std::vector<bool> symmetric = {true};
  std::vector<bool> act_order = {false};
  std::vector<kernels::HalfType> types = {kernels::HalfType::kFloat16};
  // Weights rotate through more memory than the caches hold; else one weight is used again and
  // again.
  bool cold = true;
  // Empty: the one that selection takes for each problem. "all": each one that can run it. Else
  // these, each of which must be able to run every problem.
  std::vector<std::string> kernels;
  std::string filter;  // of names, as for filtered_names(); empty: all
  int64_t repetitions = 20;
  int64_t seed = 0;
  // Less only in tests: bytes of the plain read, bytes that rotate, seconds of a repetition.
  int64_t read_bytes = int64_t{1} << 30;
  int64_t cold_bytes = 256'000'000;
  double seconds = 0.005;
};

}  // namespace gptqb
