// The parts of a report on one experiment, as every format shows them. A part that has nothing to
// say is empty.
#pragma once

#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/report/section.h"

namespace gptqb {

using RecordPointers = std::vector<const Record*>;

struct ExperimentReport {
  std::string name;
  RecordPointers rows;
  std::vector<Verdict> verdicts;
  std::vector<Section> sections;  // those that are not empty, in the order to read them

  // Cells of the table of methods: all but those that measure kernels.
  RecordPointers quantized() const;
};

// One for each experiment, in the order in which they first appear. Points into `data`.
std::vector<ExperimentReport> experiment_reports(const ReportData& data);

// "main": settings, per dataset perplexity with its error and paired differences, size, time,
// marks.
Section main_section(const RecordPointers& rows, const std::vector<Record>& all);
// "paper": tables as papers print them. Rows are methods by falling bits; columns are models, one
// table a metric, or with one model its datasets. Where a value was published it stands beside ours
// with its verdict. Metrics: perplexities, and all that `expect` has a value for, but not those of
// single layers; without either the time to quantize.
std::vector<Section> paper_sections(const RecordPointers& rows,
                                    const std::vector<Verdict>& verdicts);
// Whether an entry of `expect` has a place there: a value, not a bound, and not of a single layer.
bool is_published_value(const Expectation& expectation);
// "environment": machine and program, one column for each that cells were made on.
Section environment_section(const RecordPointers& rows);
// "decode" of cells with decode_latency: time of a token, memory, and the speed-up over the dense
// cell of the same model, batch and lengths, a row for each cell and batch.
Section decode_section(const RecordPointers& rows);
// "divergence": how far outputs lie from the dense model's: mean with its error, tail, agreement,
// and the paired difference from RTN.
Section divergence_section(const RecordPointers& rows, const std::vector<Record>& all);
// "seeds": cells that differ in nothing but the calibration seed: mean, spread and number.
Section seeds_section(const RecordPointers& rows);
// "provenance": what the numbers stand on: shared settings, token windows, device, program.
Section provenance_section(const RecordPointers& rows);
// "rules": of cells with `overrides`, how many layers each rule took, and the bits a weight that
// come of it.
Section rules_section(const RecordPointers& rows);
// "absent": cells without a result, and why.
Section absent_section(const RecordPointers& rows);
// "notes": what a reader must know of cells that have one.
Section notes_section(const RecordPointers& rows);
// "blocks": cells that differ in nothing but the size of their blocks of columns: time, and whether
// the codes are the same, layer by layer.
Section blocks_section(const RecordPointers& rows);
// "solvers": cells that differ in nothing but the solver: time of Hessian, factor and solve by
// shape of a layer, and how many times that of the published loop.
Section solvers_section(const RecordPointers& rows);
// "kernels" of each cell that measures kernels: every row, under the ceilings of its run; then
// "crossover": from which M the dense product is faster.
std::vector<Section> kernel_sections(const RecordPointers& rows);
// "claim" of the experiment: whether it holds, in a sentence with its numbers, and every comparison
// behind it. One for each claim: tiers may make different ones.
std::vector<Section> claim_sections(const RecordPointers& rows);
// "verdicts" on cells of `rows`, told apart as in the other tables.
Section verdict_section(const std::vector<Verdict>& verdicts, const RecordPointers& rows);

}  // namespace gptqb
