// Which records a record's loss is held against, and how far it lies from them on the same windows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/statistics.h"
#include "runner/record.h"

namespace gptqb {

// Whether the losses of two records on `dataset` are of the same token windows, computed in the
// same dtype.
bool same_windows(const Record& a, const Record& b, const std::string& dataset);

// The dense cell (method `none`) of the same model and dtype that saw the same windows of
// `dataset`; null if none.
const Record* dense_baseline(const Record& record, const std::vector<Record>& records,
                             const std::string& dataset);

// The RTN cell that also has the same `quant.*` settings and overrides; null if none.
const Record* rtn_baseline(const Record& record, const std::vector<Record>& records,
                           const std::string& dataset);

// Loss of `record` minus loss of `baseline` in nats a token, paired over the windows of `dataset`.
// Empty without a baseline or without window losses.
std::optional<PairedDifference> loss_difference(const Record& record, const Record* baseline,
                                                const std::string& dataset);

}  // namespace gptqb
