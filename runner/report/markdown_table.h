// A report's parts as Markdown whose source is readable too: columns of a table are padded to one
// width, numbers to the right.
#pragma once

#include <string>

#include "runner/report/section.h"

namespace gptqb {

// Heading, intro, table, list and note, those that there are; ends with a line break.
std::string markdown_text(const Section& section);
std::string markdown_text(const ReportTable& table);

// For what is printed as Markdown alone.
class MarkdownTable : public ReportTable {
 public:
  std::string text() const { return markdown_text(*this); }
};

// Text that stays one cell and shows as it is: | < and backslash are escaped, line breaks become
// spaces.
std::string markdown_escape(const std::string& text);

}  // namespace gptqb
