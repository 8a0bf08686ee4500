// A saved checkpoint, evaluated as a loader would: from its files, by packed kernels.
#pragma once

#include <filesystem>

#include "runner/cell_run.h"

namespace gptqb {

// Mean difference in loss, nats a token, that packed kernels may make: both paths multiply by the
// same weights, so what is left is rounding. Half a percent of perplexity.
constexpr double kPackedLossBound = 5e-3;

// Opens `folder`, which the cell wrote, with model.backend packed, and evaluates it on what the
// cell's perplexities were taken from, already in `record`. Adds `perplexity_packed.<dataset>` and
// `packed_difference.<dataset>`: mean and standard error of window loss, packed less dequantized,
// in nats a token; and a policy that names the kernels. Models of float32 are evaluated in float16,
// which a note says; where no kernel multiplies, a note says why there is no number. Takes the
// kernel that would be chosen, which for many rows is an oracle, and slow, on GPUs before Hopper.
// Throws Error if the difference is beyond the bound or not finite.
void evaluate_saved(const std::filesystem::path& folder, const Cell& cell,
                    const PreparedCell& prepared, const RunOptions& options, Record& record);

// Opens `folder`, which the cell wrote, with model.backend packed, and adds what its evaluator
// decode_latency measures there; the dense model's blocks leave the device before. Models of
// float32 are timed in float16, which a note says. Throws Error: no kernel multiplies such codes.
void time_saved(const std::filesystem::path& folder, const Cell& cell, PreparedCell& prepared,
                const RunOptions& options, Record& record);

// "cuda_strips, cuda_wide": the kernels that a model ran.
std::string kernel_names(const CausalLm& model);

}  // namespace gptqb
