// A report's parts as HTML. Nothing of a record reaches the page unescaped.
#pragma once

#include <string>

#include "runner/report/section.h"
#include "runner/verdict.h"

namespace gptqb {

// Text that shows as it is, in an attribute too, and in XML. Text that is not UTF-8 has U+FFFD for
// what is broken; control characters, which HTML forbids, become spaces.
std::string html_escape(const std::string& text);

// "<span class=...>✓ PASS</span>": a mark and the word, so that nothing hangs on colour.
std::string html_verdict(Outcome outcome);

// A table that scrolls inside its own box. `label` names it for readers who do not see it. It is
// complete without a script; class "sortable" lets the page's script sort it.
std::string html_table(const ReportTable& table, const std::string& label);

// A <section> with the heading <h3>, or without one where the section has no title. `id` must be
// the only one of its name on the page.
std::string html_section(const Section& section, const std::string& id);

}  // namespace gptqb
