// Style and script of report.html: assets/report.css and assets/report.js as text.
#pragma once

namespace gptqb {

extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace gptqb
