// Which kernel runs which problem of a benchmark, and what each such case is called.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eval/kernel_bench_spec.h"
#include "kernels/matmul.h"

namespace gptqb {

// Where kernels come from: the registry, or for tests a wrong one.
struct KernelSource {
  std::vector<std::string> names;
  std::function<kernels::MatmulChoice(const kernels::MatmulProblem&, const kernels::MatmulDevice&,
                                      const std::string& wanted)>
      choose;
  std::function<std::unique_ptr<kernels::MatmulKernel>(const std::string& name)> make;
};
const KernelSource& registered_kernels();

// One kernel on one problem.
struct KernelCase {
  kernels::MatmulProblem problem;
  kernels::MatmulChoice choice;
  std::string name;
};

// Whether both have the same dense product, but for M.
bool same_shape(const kernels::MatmulProblem& a, const kernels::MatmulProblem& b);

// Every problem of `spec` with the kernels that are to run it, less what its filter leaves out, in
// the order in which they run. Throws Error as check_kernel_bench does.
std::vector<KernelCase> cases_of(const KernelBenchSpec& spec, const kernels::MatmulDevice& device,
                                 const KernelSource& source);

}  // namespace gptqb
