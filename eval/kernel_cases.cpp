#include "eval/kernel_cases.h"

#include <set>

#include "common/error.h"
#include "eval/timed_runs.h"
#include "methods/half_type.h"

namespace gptqb {

using kernels::HalfType;
using kernels::MatmulProblem;

const KernelSource& registered_kernels() {
  static const KernelSource source{
      kernels::matmul_kernels().names(),
      kernels::choose_matmul,
      [](const std::string& name) { return kernels::matmul_kernels().at(name).make(); },
  };
  return source;
}

bool same_shape(const MatmulProblem& a, const MatmulProblem& b) {
  return a.k == b.k && a.n == b.n && a.type == b.type;
}

namespace {

std::string case_name(const std::string& kernel, const MatmulProblem& problem) {
  return kernel + "/" + std::to_string(problem.k) + "x" + std::to_string(problem.n) +
         "/m:" + std::to_string(problem.m) + "/bits:" + std::to_string(problem.bits) +
         "/group:" + std::to_string(problem.group_size) + (problem.symmetric ? "/sym" : "/asym") +
         (problem.act_order ? "/act-order/" : "/natural/") + type_name(problem.type);
}

// In the order in which they run: problems that share a weight follow each other.
std::vector<MatmulProblem> problems_of(const KernelBenchSpec& spec) {
  std::vector<MatmulProblem> problems;
  for (const KernelShape& shape : spec.shapes)
    for (const HalfType type : spec.types)
      for (const int64_t bits : spec.bits)
        for (const int64_t group_size : spec.group_sizes)
          for (const bool symmetric : spec.symmetric)
            for (const bool act_order : spec.act_order)
              for (const int64_t m : spec.m)
                problems.push_back({.m = m,
                                    .n = shape.n,
                                    .k = shape.k,
                                    .bits = bits,
                                    .group_size = group_size,
                                    .symmetric = symmetric,
                                    .act_order = act_order,
                                    .type = type});
  return problems;
}

std::vector<kernels::MatmulChoice> choices_of(const KernelBenchSpec& spec,
                                              const MatmulProblem& problem,
                                              const kernels::MatmulDevice& device,
                                              const KernelSource& source) {
  if (spec.kernels.empty()) return {source.choose(problem, device, "")};
  std::vector<kernels::MatmulChoice> choices;
  if (spec.kernels != std::vector<std::string>{"all"}) {
    for (const std::string& kernel : spec.kernels)
      choices.push_back(source.choose(problem, device, kernel));
    return choices;
  }
  for (const std::string& kernel : source.names) {
    try {
      choices.push_back(source.choose(problem, device, kernel));
    } catch (const Error&) {
      // Of all kernels, those that can run this.
    }
  }
  if (choices.empty()) choices.push_back(source.choose(problem, device, ""));
  return choices;
}

}  // namespace

std::vector<KernelCase> cases_of(const KernelBenchSpec& spec, const kernels::MatmulDevice& device,
                                 const KernelSource& source) {
  std::vector<KernelCase> cases;
  for (const MatmulProblem& problem : problems_of(spec))
    for (const kernels::MatmulChoice& choice : choices_of(spec, problem, device, source))
      cases.push_back({problem, choice, case_name(choice.kernel, problem)});
  std::vector<std::string> names;
  for (const KernelCase& each : cases) names.push_back(each.name);
  const auto selected = filtered_names(names, spec.filter);
  const std::set<std::string> wanted(selected.begin(), selected.end());
  std::erase_if(cases, [&](const KernelCase& each) { return !wanted.contains(each.name); });
  return cases;
}

}  // namespace gptqb
