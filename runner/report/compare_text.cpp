#include "runner/report/compare.h"
#include "runner/report/markdown_table.h"

namespace gptqb {
namespace {

bool trips(Change change) { return change == Change::kWorse || change == Change::kMissing; }

std::string xml_escape(const std::string& text) {
  std::string result;
  for (char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML 1.0 has no other control characters, not even escaped.
        if (static_cast<unsigned char>(letter) >= 0x20) result.push_back(letter);
        if (letter == '\n' || letter == '\t') result.push_back(' ');
    }
  }
  return result;
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  MarkdownTable table;
  for (const char* title :
       {"cell", "settings", "metric", "before", "after", "change", "how it was judged"})
    table.add_column(title);
  int64_t same = 0;
  for (const Change wanted : {Change::kWorse, Change::kMissing, Change::kNotComparable,
                              Change::kBetter, Change::kNew, Change::kSame}) {
    for (const MetricChange& change : comparison.changes) {
      if (change.change != wanted) continue;
      if (wanted == Change::kSame) {
        ++same;
        continue;
      }
      table.add_row({change.cell_id, change.label, change.metric, change.before, change.after,
                     change_name(change.change), change.detail});
    }
  }
  std::string text = std::to_string(comparison.cells) + " cells in both, " + std::to_string(same) +
                     " metrics unchanged within noise";
  text += comparison.tripped() ? ", the gate TRIPPED\n" : ", the gate holds\n";
  if (!table.empty()) text += '\n';
  text += table.empty() ? std::string() : table.text();
  return text;
}

std::string junit_xml(const Comparison& comparison) {
  int64_t failures = 0;
  std::string cases;
  for (const MetricChange& change : comparison.changes) {
    cases += "  <testcase classname=\"" + xml_escape(change.cell_id + " " + change.label) +
             "\" name=\"" + xml_escape(change.metric) + "\"";
    if (!trips(change.change)) {
      cases += "/>\n";
      continue;
    }
    ++failures;
    cases += ">\n    <failure message=\"";
    cases += xml_escape(std::string(change_name(change.change)) + ": before " + change.before +
                        ", after " + change.after + "; " + change.detail);
    cases += "\"/>\n  </testcase>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"gptq-bench compare\" "
         "tests=\"" +
         std::to_string(comparison.changes.size()) + "\" failures=\"" + std::to_string(failures) +
         "\">\n" + cases + "</testsuite>\n";
}

}  // namespace gptqb
