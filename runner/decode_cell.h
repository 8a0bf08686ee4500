// Cells whose model writes against the clock: evaluator decode_latency.
#pragma once

#include <map>
#include <string>

#include "eval/generation.h"
#include "runner/cell.h"
#include "runner/plan.h"

namespace gptqb {

// The evaluator decode_latency of `cell`; null if it has none.
const EvaluatorSpec* decode_evaluator(const Cell& cell);

// Whether the cell quantizes and its steps are timed on the codes that come out: they are written
// as a packed checkpoint, which is opened with model.backend packed. With model.backend dense the
// dequantized weights are timed.
bool times_its_codes(const Cell& cell);

// Why steps cannot be timed on the codes of `cell`; "" if they can, or are not asked for.
std::string decode_refusal(const Cell& cell);

// What `spec` of `cell` asks for of the model that is timed. `from_codes`: its packed linears are
// computed from their codes.
DecodeTask decode_task(const Cell& cell, const EvaluatorSpec& spec, bool from_codes);

// What generating with `model`, the cell's as it is opened, takes at its largest batch: of
// times_its_codes() with linears as they will be packed. Reads no weight. Throws Error if the model
// has fewer positions than prompt and generated tokens.
GenerationMemory decode_memory(const Cell& cell, const CausalLm& model);

// Throws Error as require_room() if that is more than is free on `device` or within `limits`.
void require_decode_room(const GenerationMemory& memory, const std::string& device,
                         const MemoryLimits& limits);

// Cells of `plan` whose models cannot write on `device` become skipped, with what they need and
// what is free as the reason. `memory` by cell id.
void skip_what_cannot_decode(Plan& plan, const std::map<std::string, GenerationMemory>& memory,
                             const std::string& device);

}  // namespace gptqb
