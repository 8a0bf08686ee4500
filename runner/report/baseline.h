// Which records a record's loss is held against, and how far it lies from them on the same windows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/statistics.h"
#include "runner/record.h"

namespace gptqb {

// Whether what `evaluator` measured for two records on `dataset` is of the same token windows, and
// losses computed in the same dtype.
bool same_windows(const Record& a, const Record& b, const std::string& dataset,
                  const std::string& evaluator = "perplexity");

// The dense cell (method `none`) of the same model and dtype that saw the same windows of
// `dataset`; null if none.
const Record* dense_baseline(const Record& record, const std::vector<Record>& records,
                             const std::string& dataset);

// The RTN cell that also has the same `quant.*` settings and overrides; null if none.
const Record* rtn_baseline(const Record& record, const std::vector<Record>& records,
                           const std::string& dataset, const std::string& evaluator = "perplexity");

// Loss of `record` minus loss of `baseline` in nats a token, paired over the windows of `dataset`.
// Empty without a baseline or without window losses.
std::optional<PairedDifference> loss_difference(const Record& record, const Record* baseline,
                                                const std::string& dataset);
// The same for any metric with a sample for each window.
std::optional<PairedDifference> metric_difference(const Record& record, const Record* baseline,
                                                  const std::string& metric);

// "+0.012 ± 0.003", or "tie (...)" of it if the interval holds 0.
std::string paired_text(const PairedDifference& difference);

}  // namespace gptqb
