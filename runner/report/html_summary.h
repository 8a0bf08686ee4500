// What a reader of report.html sees first: how many cells and verdicts ended how, and everything
// that went wrong or is missing.
#pragma once

#include <string>
#include <vector>

#include "runner/report/sections.h"

namespace gptqb {

// Counts of cells by status and of verdicts by outcome, each with a mark.
std::string html_counts(const ReportData& data);

// The box of failures: damaged files, failed cells, verdicts that are FAIL, cells not run. Says so
// where there is nothing of the kind.
std::string html_problems(const ReportData& data, const std::vector<ExperimentReport>& experiments);

}  // namespace gptqb
