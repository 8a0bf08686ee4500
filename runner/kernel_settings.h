// The section `kernels` of an experiment: what it leaves open, and which shapes it means.
#pragma once

#include <string>

#include "eval/kernel_bench_spec.h"
#include "runner/resolve.h"

namespace gptqb {

class Cell;
struct KernelSource;
struct Plan;

// "4096x11008", in x out features. Throws Error.
KernelShape kernel_shape(const std::string& text);

// The settings `kernels.*` of a document with every default, lists as lists; none if it has no such
// section. Adds a fault for what cannot stand: neither or both of like and shapes, a shape that is
// none, a model or a kernel that is not known.
Values kernel_values(const Settings& document, Faults& faults);

// What a cell with `kernels.*` settings measures: with the shapes of the model it is `like`, each
// once, in the order of a block.
KernelBenchSpec kernel_bench_of(const Cell& cell);

// Throws Error if a cell of `plan` asks for a kernel that cannot run its problems on `device` (as
// on the command line), with the kernel's refusal.
void check_kernels(const Plan& plan, const std::string& device, const KernelSource& source);

}  // namespace gptqb
