// JUnit XML of a comparison, by what its readers agree on: testsuites > testsuite > properties,
// testcase > failure or skipped. https://llg.cubic.org/docs/junit lists what each of them reads.
#include <utility>

#include "runner/report/compare.h"
#include "runner/report/html_text.h"

namespace gptqb {
namespace {

// ` name="value"`
std::string attribute(const std::string& name, const std::string& value) {
  std::string text = " ";
  text += name;
  text += "=\"";
  text += html_escape(value);
  text += '"';
  return text;
}

std::string property(const std::string& name, const std::string& value) {
  return "      <property" + attribute("name", name) + attribute("value", value) + "/>\n";
}

bool is_skipped(Change change) {
  return change == Change::kUnclear || change == Change::kNotComparable;
}

std::string test_case(const MetricChange& change) {
  // What runners group by: the experiment, and in it the cell.
  const std::string group = change.experiment + "." + change.cell_id + " " + change.label;
  const std::string text =
      "    <testcase" + attribute("classname", group) + attribute("name", change.metric);
  const std::string message = std::string(change_name(change.change)) + ": before " +
                              (change.before.empty() ? "-" : change.before) + ", now " +
                              (change.after.empty() ? "-" : change.after) +
                              (change.detail.empty() ? "" : "; " + change.detail);
  std::string inside;
  if (trips(change.change))
    inside = "<failure" + attribute("type", change_name(change.change)) +
             attribute("message", message) + ">" + html_escape(group + ", " + change.metric) +
             "</failure>";
  else if (is_skipped(change.change))
    inside = "<skipped" + attribute("message", message) + "/>";
  if (inside.empty()) return text + attribute("time", "0") + "/>\n";
  return text + attribute("time", "0") + ">\n      " + inside + "\n    </testcase>\n";
}

}  // namespace

std::string junit_xml(const Comparison& comparison) {
  int64_t failures = 0, skipped = 0;
  std::string cases;
  for (const MetricChange& change : comparison.changes) {
    cases += test_case(change);
    failures += trips(change.change);
    skipped += is_skipped(change.change);
  }
  const std::string counts = attribute("tests", std::to_string(comparison.changes.size())) +
                             attribute("failures", std::to_string(failures)) +
                             attribute("errors", "0");
  std::string properties =
      property("before", comparison.before) + property("now", comparison.after);
  for (const EnvironmentChange& change : comparison.environment)
    properties += property("changed: " + change.what, change.before + " -> " + change.after);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
         attribute("name", "gptq-bench") + counts + ">\n  <testsuite" +
         attribute("name", "gptq-bench compare") + counts +
         attribute("skipped", std::to_string(skipped)) + attribute("time", "0") +
         ">\n    <properties>\n" + properties + "    </properties>\n" + cases +
         "  </testsuite>\n</testsuites>\n";
}

}  // namespace gptqb
