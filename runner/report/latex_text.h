// A report's parts as LaTeX: tables with the rules of booktabs.
//
// The text needs the packages booktabs and, for tables over several pages, longtable; it compiles
// with pdfLaTeX, XeLaTeX and LuaLaTeX. Every row has as many cells as the table has columns.
#pragma once

#include <string>

#include "runner/report/section.h"

namespace gptqb {

// A float with caption, or a longtable where `long_table`. Verdicts become marks: see
// kLatexMarks.
std::string latex_table(const Section& section, const std::string& caption, bool long_table);

// What the marks of latex_table() mean, a sentence.
extern const char* const kLatexMarks;

// Text that shows as it is, in a cell too: every special character is escaped, "--" stays two
// hyphens, and letters outside Latin-1, which fonts of pdfLaTeX lack, become \texttt{U+6A21}. Text
// that is not UTF-8 has U+FFFD for what is broken.
std::string latex_escape(const std::string& text);

}  // namespace gptqb
