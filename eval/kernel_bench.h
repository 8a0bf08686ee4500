// Throughput of the kernels that multiply by packed weights, beside what the device can do at all.
//
// Everything is measured in one run: how fast memory can be read, how fast dense 16-bit products
// are, the dense product of each shape (float16 or bfloat16 by cuBLAS; float32 by ATen on the CPU),
// and the kernels. A result is checked against float64 (random_weight.h) before it is timed, and
// once more, bit by bit, after.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/progress.h"
#include "eval/kernel_bench_spec.h"
#include "eval/kernel_cases.h"
#include "eval/kernel_row.h"
#include "kernels/matmul.h"

namespace gptqb {

struct KernelFailure {
  std::string name;
  std::string reason;
};

struct KernelBenchResult {
  std::vector<KernelRow> rows;
  std::vector<KernelFailure> failures;  // kernels that were wrong or could not be timed
  double read_bytes_per_second = 0;
  std::vector<std::pair<std::string, double>> dense_flops_per_second;  // by type
  std::vector<std::string> notes;
};

// Empty, or that rows went beyond a ceiling of their run though nothing came from a cache: then the
// device was busy with something else while the ceiling was measured.
std::string beyond_ceiling(const std::vector<KernelRow>& rows);

// Throws Error if a kernel that `spec` names cannot run one of its problems (with its refusal), if
// no kernel can, or if the filter leaves nothing.
void check_kernel_bench(const KernelBenchSpec& spec, const kernels::MatmulDevice& device,
                        const KernelSource& source = registered_kernels());

// The same, then measures. A kernel whose result is wrong is among `failures` and not timed; the
// others are. Throws Error if a ceiling cannot be measured, Interrupted on Ctrl-C.
KernelBenchResult bench_kernels(const KernelBenchSpec& spec, at::Device device, Progress& progress,
                                const KernelSource& source = registered_kernels());

}  // namespace gptqb
