// The memory plans of a plan's cells.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "methods/memory_plan.h"
#include "runner/plan.h"

namespace gptqb {

// Calibration windows of a cell that run through a block together on `device`: one with the
// published solver, as the published code does and since rounding depends on the shapes of
// products.
int64_t calibration_sequences_per_pass(const Cell& cell, at::Device device);

// What a cell asks of memory on `device` (cpu, cuda, cuda:N), beside its model's sizes: known from
// its settings, before any window is drawn. Evaluations of all windows there are count none.
// `saves_blocks`: finished blocks are written, for a run that goes on or a packed checkpoint.
MemoryTask memory_task(const Cell& cell, const std::string& device, bool saves_blocks);

// `limits`, and the machine's memory where they say nothing. The memory of a GPU is known only for
// one that is there.
MemoryLimits within_machine(MemoryLimits limits, const std::string& device);

// Cells of `plan` that cannot fit `device` become skipped, with the plan's refusal as the reason.
// `sizes` by cell id: others are left as they are.
void skip_what_does_not_fit(Plan& plan, const std::map<std::string, ModelSizes>& sizes,
                            const std::string& device);

// A line for each model of the plan and each kind of device, of the cell that takes most: what it
// takes, or why it does not fit. For `gptq-bench plan`.
std::string memory_lines(const Plan& plan, const std::map<std::string, ModelSizes>& sizes);

}  // namespace gptqb
