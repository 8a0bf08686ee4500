// One layer through a GPTQ solver, on the device under test: the CPU, or what
// GPTQ_BENCH_TEST_DEVICE names ("cuda"), so that the same tests hold the GPU's solver.
#pragma once

#include <ATen/ATen.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <variant>

#include "methods/gptq_fast.h"
#include "methods/gptq_reference.h"
#include "methods/linear_replacement.h"

namespace gptqb::test {

inline at::Device device_under_test() {
  const char* name = std::getenv("GPTQ_BENCH_TEST_DEVICE");
  return at::Device(name != nullptr ? name : "cpu");
}

struct Solved {
  SweepResult result;  // on the CPU
  Factor factor;       // on the device
};

inline Solved solve(SweepProblem problem, const at::Tensor& h, SolverKind solver) {
  const bool reference = solver == SolverKind::kReference;
  problem.weights = problem.weights.to(device_under_test());
  problem.rule.step_by_step = reference;
  FactorFailure failure;
  auto prepared =
      prepare_hessian(h.to(device_under_test()), problem.method.damping, problem.method);
  auto factor = reference ? factorize_reference(std::move(prepared), failure)
                          : factorize_fast(std::move(prepared), failure);
  if (!factor) throw std::runtime_error("factorization failed");
  auto result = reference ? sweep_reference(problem, *factor) : sweep_fast(problem, *factor);
  result.quantized =
      std::get<QuantizedLinear>(LinearReplacement{std::move(result.quantized)}.to(at::kCPU).form);
  return {std::move(result), std::move(*factor)};
}

}  // namespace gptqb::test
