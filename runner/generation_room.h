// Whether a model that generates has room, asked before any long work.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>

#include "eval/generation.h"

namespace gptqb {

// Throws Error unless `memory` fits what is free on `device` now (nothing is known: it fits) and,
// if there is one, within `limit` bytes: with what is needed, part by part, what there is, and
// `advice`, a sentence.
void require_room(const GenerationMemory& memory, at::Device device, std::optional<int64_t> limit,
                  const std::string& advice);

}  // namespace gptqb
