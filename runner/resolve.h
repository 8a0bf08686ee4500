// From the settings a file gives to the settings that decide a cell: defaults, shorthands, keys no
// method uses.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/experiment.h"

namespace gptqb {

// Checked values by dotted key.
using Values = std::map<std::string, nlohmann::json>;

// Whether `key` of the sections calibration, method, quant, compat and overrides means anything to
// `method`.
bool method_uses(const std::string& method, const std::string& key);

// Whether cells leave `key` out at its default: it came later, or says nothing there.
bool is_absent_at_default(const std::string& key);

// Every key of a cell that is set or has a default: `compat.base` resolved into its parts,
// `method.order: act` into `act_order`. Adds a fault for keys that contradict each other.
Values with_defaults(const Settings& settings, Faults& faults);

// Adds a fault for values that cannot stand together in a cell; `values` as with_defaults() made
// them of `settings`. Asked only of cells that `exclude` leaves in.
void check_together(const Settings& settings, const Values& values, Faults& faults);

// What decides the numbers of `full`: without keys its method does not use, and without keys of
// later work that are at their default. `none` keeps the model, evaluate, and compat.loss_dtype and
// .forward;
// `rtn` neither calibration nor the solver's keys (its codes depend on the weights alone; gptq
// cells carry relative_error_rtn beside their own error).
Values identity(const Values& full);

// Why this build cannot run a cell with these settings; "" if it can. `run` holds the document's
// other settings (limits, executor ...).
std::string skip_reason(const Values& cell, const Settings& run,
                        const std::vector<std::string>& methods,
                        const std::vector<std::string>& evaluators);

}  // namespace gptqb
