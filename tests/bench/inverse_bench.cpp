// The paper's third step (section 3.3): what float32 makes of the inverse Hessian of the columns
// that are left, kept by repeated updates or taken from Cholesky factors, against float64, as n
// grows.
//
//   bench_inverse [largest [seeds [rows]]]      defaults 4096 3 32
//
// CSV on stdout, one line for each n, spectrum, damping, seed and form:
//   updates_1    eq. 3: one row and column leave the inverse at a time
//   updates_128  blocks of 128: eq. 3 inside, eq. 4 and 5, with their inversion, behind
//   cholesky     Algorithm 1: Cholesky of H, inverse, Cholesky of the inverse
//   fast         one Cholesky of H from the other end (shared/design/solver.md)
//
// A pivot is [H_F^-1]_ii of the columns F from i on, by which all errors of column i are divided.
// `first_off_*`: the first column whose pivot is wrong by more than so much, `first_lost`: the
// first without a usable one (not positive, or a rounding error of what it was; with Cholesky,
// where the factorization stops); empty: none. `largest_error`: the largest relative error of a
// pivot up to there. `codes_differ`: share of codes unlike those of float64 in the same rounding,
// `error_ratio`: tr(E H E^T) to that of float64's codes; both empty where a pivot was lost.
//
// Inputs are X = Z diag(s) M with Z, M of normal numbers and s^2 falling as k^-1 or k^-2 ("slow",
// "steep"): 2 n tokens whose energy lies in few directions, as that of real layers does.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "methods/gptq_fast.h"
#include "methods/gptq_inverse_updates.h"
#include "methods/gptq_reference.h"
#include "methods/obq_problem.h"
#include "methods/quadratic_form.h"

namespace gptqb {
namespace {

// What one form made of a layer.
struct Outcome {
  at::Tensor pivots;                // f64 [n], those up to the lost one count
  std::optional<int64_t> lost;      // column
  std::optional<at::Tensor> codes;  // u8 [rows, n]
  double error = 0;                 // tr(E H E^T) in f64
};

struct Layer {
  at::Tensor hessian;  // f32 [n, n]
  at::Tensor weights;  // f32 [rows, n]
  double damping = 0;
};

SweepProblem problem_of(const Layer& layer, ComputeDtype compute, int64_t block_size) {
  MethodConfig method;
  method.compute = compute;
  method.block_size = block_size;
  return {.layer = "bench",
          .weights = layer.weights.to(scalar_type(compute)),
          .rule = {{.bits = 3, .group_size = -1, .scale_dtype = ScaleDtype::kFloat32}},
          .method = method,
          .compat = {}};
}

double error_of(const Layer& layer, const QuantizedLinear& quantized) {
  const auto e = layer.weights.to(at::kDouble) - quantized.dequantize(at::kDouble);
  return quadratic_form(e, layer.hessian.to(at::kDouble));
}

template <class Factorize, class Sweep>
Outcome outcome_of(const Layer& layer, ComputeDtype compute, int64_t block_size,
                   Factorize factorize, Sweep sweep) {
  const auto problem = problem_of(layer, compute, block_size);
  Outcome outcome;
  FactorFailure failure;
  // The same float32 matrix for all: what is measured is what is done with it.
  auto prepared = prepare_hessian(layer.hessian, layer.damping, MethodConfig{});
  prepared.matrix = prepared.matrix.to(scalar_type(compute));
  const auto factor = factorize(std::move(prepared), failure);
  if (!factor) {
    outcome.lost = failure.column;
    return outcome;
  }
  const auto solved = sweep(problem, *factor);
  outcome.pivots = solved.pivots.defined() ? solved.pivots
                                           : factor->diagonal.to(at::kDouble).square().reciprocal();
  outcome.lost = solved.lost_pivot;
  if (outcome.lost) return outcome;
  outcome.codes = solved.quantized.codes;
  outcome.error = error_of(layer, solved.quantized);
  return outcome;
}

std::string first_above(const at::Tensor& errors, double limit) {
  const auto above = at::nonzero(errors > limit);
  return above.numel() == 0 ? "" : std::to_string(above[0][0].item<int64_t>());
}

std::string share_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

void print(const std::string& start, const std::string& form, const Outcome& outcome,
           const Outcome& exact) {
  const int64_t n = exact.pivots.size(0);
  const int64_t kept = outcome.pivots.defined() ? outcome.lost.value_or(n) : 0;
  at::Tensor errors = at::empty({0}, at::kDouble);
  if (kept > 0) {
    const auto wanted = exact.pivots.slice(0, 0, kept);
    errors = ((outcome.pivots.slice(0, 0, kept) - wanted) / wanted).abs();
  }
  std::string codes, ratio;
  if (outcome.codes) {
    codes = share_text((*outcome.codes != *exact.codes).to(at::kDouble).mean().item<double>());
    ratio = share_text(outcome.error / exact.error);
  }
  std::printf("%s,%s,%s,%s,%s,%s,%s,%s\n", start.c_str(), form.c_str(),
              first_above(errors, 0.01).c_str(), first_above(errors, 0.1).c_str(),
              outcome.lost ? std::to_string(*outcome.lost).c_str() : "",
              kept > 0 ? share_text(errors.max().item<double>()).c_str() : "", codes.c_str(),
              ratio.c_str());
  std::fflush(stdout);
}

// f32 [n, n]: 2 / sequences x X^T X of one sequence.
at::Tensor hessian_of(int64_t n, double power, at::Generator& generator) {
  const auto sizes = at::arange(1, n + 1, at::kFloat).pow(-power / 2);
  const auto z = at::randn({2 * n, n}, generator) * sizes;
  const auto x = at::mm(z, at::randn({n, n}, generator) / std::sqrt(static_cast<double>(n)));
  const auto h = at::mm(x.t(), x) * 2;
  return (h + h.t()) / 2;
}

int run(int argc, char** argv) {
  const auto argument = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const int64_t largest = argument(1, 4096);
  const int64_t seeds = argument(2, 3);
  const int64_t rows = argument(3, 32);
  // Blocks of one touch all of the inverse n times.
  constexpr int64_t kLargestOfBlocksOfOne = 1024;
  const c10::InferenceMode inference;
  std::printf(
      "n,spectrum,damping,seed,condition,form,first_off_1_percent,first_off_10_percent,first_lost,"
      "largest_error,codes_differ,error_ratio\n");
  for (int64_t n = 128; n <= largest; n *= 2)
    for (const auto& [spectrum, power] : {std::pair{"slow", 1.0}, std::pair{"steep", 2.0}})
      for (int64_t seed = 0; seed < seeds; ++seed) {
        auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
        Layer layer{.hessian = hessian_of(n, power, generator), .weights = {}, .damping = 0};
        layer.weights = at::randn({rows, n}, generator) * 0.02;
        for (const double damping : {1e-2, 1e-4, 1e-6}) {
          layer.damping = damping;
          constexpr auto kDouble = ComputeDtype::kFloat64;
          constexpr auto kSingle = ComputeDtype::kFloat32;
          const auto exact = outcome_of(layer, kDouble, 128, factorize_fast, sweep_fast);
          if (exact.lost) continue;
          const double spread =
              exact.pivots.max().item<double>() / exact.pivots.min().item<double>();
          const std::string start = std::to_string(n) + "," + spectrum + "," + share_text(damping) +
                                    "," + std::to_string(seed) + "," + share_text(spread);
          if (n <= kLargestOfBlocksOfOne)
            print(start, "updates_1",
                  outcome_of(layer, kSingle, 1, factorize_inverse, sweep_inverse_updates), exact);
          print(start, "updates_128",
                outcome_of(layer, kSingle, 128, factorize_inverse, sweep_inverse_updates), exact);
          print(start, "cholesky",
                outcome_of(layer, kSingle, 128, factorize_reference, sweep_reference), exact);
          print(start, "fast", outcome_of(layer, kSingle, 128, factorize_fast, sweep_fast), exact);
        }
      }
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
