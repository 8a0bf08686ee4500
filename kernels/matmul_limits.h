// What each kernel can run, known without a GPU and in builds without CUDA.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "kernels/matmul.h"

namespace gptqb::kernels {

struct MatmulLimits {
  std::string_view kernel;
  std::string_view layout;
  bool cuda = false;
  // Compute capabilities that it runs on; 0, 0 for a CPU kernel.
  int64_t capability_from = 0;
  int64_t capability_to = 0;
  int64_t m_to = std::numeric_limits<int64_t>::max();
  // What else may refuse: empty, or the reason.
  std::string (*more)(const MatmulProblem& problem, const MatmulDevice& device) = nullptr;
};

// One for each kernel of kernels.def. An unknown name is an Error with the known ones.
const MatmulLimits& matmul_limits(std::string_view kernel);

// MatmulKernel::refusal() of every kernel: empty, or one line "expected X, got Y".
std::string matmul_refusal(std::string_view kernel, const MatmulProblem& problem,
                           const MatmulDevice& device);

// The part of it that is the same for all: sizes, bits, groups.
std::string matmul_refusal(const MatmulProblem& problem);

// A kernel whose limits are a row of the table, and that needs no workspace unless it says so.
class LimitedKernel : public MatmulKernel {
 public:
  // `name` as in kernels.def; it stays where it is.
  explicit LimitedKernel(std::string_view name) : name_(name) {}
  std::string_view layout() const override { return matmul_limits(name_).layout; }
  std::string refusal(const MatmulProblem& problem, const MatmulDevice& device) const override {
    return matmul_refusal(name_, problem, device);
  }
  int64_t workspace_bytes(const PackedShape&, int64_t, const MatmulDevice&) const override {
    return 0;
  }

 private:
  std::string_view name_;
};

}  // namespace gptqb::kernels
