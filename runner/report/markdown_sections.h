// The parts of table.md. Each is Markdown text that ends with a line break, or empty where it has
// nothing to say.
#pragma once

#include <string>
#include <vector>

#include "runner/report/report.h"

namespace gptqb {

using RecordPointers = std::vector<const Record*>;

// The rows: settings, per dataset perplexity with its error and paired differences, size, time,
// marks.
std::string main_table(const RecordPointers& rows, const std::vector<Record>& all);
// How far outputs lie from the dense model's: mean with its error, tail, agreement, and the paired
// difference from RTN. Empty if no row has a divergence.
std::string divergence_table(const RecordPointers& rows, const std::vector<Record>& all);
// Cells that differ in nothing but the calibration seed: mean, spread and number.
std::string seeds_table(const RecordPointers& rows);
// What the numbers stand on: shared settings, token windows, device, program.
std::string provenance(const RecordPointers& rows);
// Of cells with `overrides`: how many layers each rule took, and the bits a weight that come of it.
std::string rules_section(const RecordPointers& rows);
// Cells without a result, and notes of those that have one.
std::string remarks(const RecordPointers& rows);
// Cells that differ in nothing but the size of their blocks of columns: time, and whether the codes
// are the same, layer by layer. Empty if there are none.
std::string blocks_table(const RecordPointers& rows);
// Cells that differ in nothing but the solver: time of Hessian, factor and solve by shape of a
// layer, and how many times that of the published loop. Empty if there are none.
std::string solvers_table(const RecordPointers& rows);
// Of cells that measure kernels: every row, under the ceilings of its run, and from which M the
// dense product is faster. Empty if there are none.
std::string kernels_table(const RecordPointers& rows);
// Verdicts on cells of `rows`, told apart as in the other tables.
std::string verdict_table(const std::vector<Verdict>& verdicts, const RecordPointers& rows);

}  // namespace gptqb
