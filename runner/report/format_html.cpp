// report.html: everything on one page that needs no other file and no network. Its one script sorts
// tables; the page's policy lets nothing else run or load, whatever a record says.
#include <algorithm>
#include <set>

#include "common/add_once.h"
#include "common/hash.h"
#include "common/text.h"
#include "runner/report/html_summary.h"
#include "runner/report/html_text.h"
#include "runner/report/kernels_csv.h"
#include "runner/report/layers_csv.h"
#include "runner/report/report_assets.h"
#include "runner/report/roofline.h"
#include "runner/report/sections.h"

namespace gptqb {

std::string render_csv(const ReportData& data);

namespace {

// RFC 4648, of bytes written as hex digits.
std::string base64_of_hex(const std::string& hex) {
  constexpr const char* kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  uint32_t bits = 0;
  int held = 0;
  for (const char digit : hex) {
    bits = bits << 4 | static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    held += 4;
    if (held < 6) continue;
    held -= 6;
    result.push_back(kLetters[bits >> held & 63]);
  }
  if (held > 0) result.push_back(kLetters[bits << (6 - held) & 63]);
  while (result.size() % 4 != 0) result.push_back('=');
  return result;
}

std::string head_of(const std::string& title) {
  const std::string script = base64_of_hex(sha256_hex(kReportScript));
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'sha256-" +
         script + "'\">\n<title>" + html_escape(title) + "</title>\n<style>\n" + kReportStyle +
         "</style>\n</head>\n<body>\n";
}

// Where and when, in one line.
std::string origin_of(const std::vector<Record>& records) {
  std::vector<std::string> devices, programs;
  std::string first, last;
  for (const Record& record : records) {
    const Environment& environment = record.environment;
    add_once(device_name(environment), devices);
    add_once("gptq-bench " + environment.build.version + " at " +
                 environment.build.commit.substr(0, 12) +
                 (environment.build.dirty ? " with changes" : ""),
             programs);
    if (first.empty() || environment.time < first) first = environment.time;
    last = std::max(last, environment.time);
  }
  const auto day = [](const std::string& time) { return time.substr(0, 10); };
  std::string when = day(first);
  if (day(last) != when) when += " to " + day(last);
  std::vector<std::string> parts = {join(devices, ", "), join(programs, ", "), when};
  std::erase(parts, "");
  return join(parts, " · ");
}

std::string figure_of(const std::string& name, const std::string& title, const std::string& svg) {
  return "<figure id=\"plot-" + html_escape(name) +
         "\">\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
         html_escape(title) + "\">\n" + svg + "\n</div>\n<figcaption>" + html_escape(title) +
         "</figcaption>\n</figure>\n";
}

std::string plots_of(const ReportData& data) {
  const std::string inputs =
      data.plots.empty()
          ? ""
          : plot_inputs(render_csv(data), layers_csv(data.records), kernels_csv(data.records));
  std::string figures;
  std::string remarks;
  bool stale = false;
  for (const PlotFile& plot : data.plots) {
    if (!plot.refused.empty())
      remarks += "<p class=\"note\">plots/" +
                 html_escape(plot.name + ".svg is not shown: " + plot.refused) + ".</p>\n";
    else if (plot.inputs != inputs)
      stale = true;
    else
      figures += figure_of(plot.name, plot.title, plot.svg);
  }
  if (stale)
    remarks +=
        "<p class=\"note\">Plots of other results lie in <code>plots/</code> and are not "
        "shown. <code>./scripts/report DIR</code> draws them again.</p>\n";
  else if (figures.empty() && std::any_of(data.records.begin(), data.records.end(),
                                          [](const Record& row) { return row.kernels.empty(); }))
    remarks +=
        "<p class=\"note\">No plots yet: <code>./scripts/report DIR</code>, with the folder "
        "of this page, draws them and makes the page again.</p>\n";
  for (const Record& record : data.records)
    if (!record.kernels.empty())
      figures += figure_of("roofline-" + record.cell_id,
                           "Roofline: kernels under the ceilings measured in the same run",
                           roofline_svg(record));
  return "<section id=\"plots\">\n<h2>Plots</h2>\n" + figures + remarks + "</section>\n";
}

// What stands before the plots; the rest is detail below them.
bool is_first(const Section& section) {
  return section.id == "main" || section.id == "paper" || section.id == "kernels" ||
         section.id == "crossover";
}

class Page {
 public:
  explicit Page(const std::vector<ExperimentReport>& experiments) : experiments_(experiments) {}

  std::string results() {
    return part("results", "Results",
                [](const ExperimentReport& experiment, std::vector<Section>& sections) {
                  for (const Section& section : experiment.sections)
                    if (is_first(section)) sections.push_back(section);
                });
  }

  std::string details() {
    return part("details", "Details",
                [](const ExperimentReport& experiment, std::vector<Section>& sections) {
                  for (const Section& section : experiment.sections)
                    // Cells without a result stand at the top of the page.
                    if (!is_first(section) && section.id != "absent") sections.push_back(section);
                  sections.push_back(environment_section(experiment.rows));
                });
  }

  std::string links() const {
    std::string text =
        "<nav aria-label=\"Contents\">\n<a href=\"#results\">Results</a>\n"
        "<a href=\"#plots\">Plots</a>\n";
    for (const auto& [id, title] : titles_)
      text += "<a href=\"#" + html_escape(id) + "\">" + html_escape(title) + "</a>\n";
    return text + "</nav>\n";
  }

 private:
  template <class Take>
  std::string part(const std::string& id, const std::string& title, Take take) {
    std::string text = "<section id=\"" + id + "\">\n<h2>" + title + "</h2>\n";
    for (const ExperimentReport& experiment : experiments_) {
      std::vector<Section> sections;
      take(experiment, sections);
      if (experiments_.size() > 1)
        text += "<h3 class=\"experiment\">" + html_escape(experiment.name) + "</h3>\n";
      for (const Section& section : sections) {
        const std::string section_id = unique(section.id);
        text += html_section(section, section_id);
        if (id == "details" && experiments_.size() == 1)
          titles_.emplace_back(section_id, section.title);
      }
    }
    return text + "</section>\n";
  }

  std::string unique(const std::string& id) {
    std::string result = id;
    for (int number = 2; !ids_.insert(result).second; ++number)
      result = id + "-" + std::to_string(number);
    return result;
  }

  const std::vector<ExperimentReport>& experiments_;
  std::set<std::string> ids_ = {"results", "plots", "details", "problems"};
  std::vector<std::pair<std::string, std::string>> titles_;
};

}  // namespace

std::string render_html(const ReportData& data) {
  const std::vector<ExperimentReport> experiments = experiment_reports(data);
  std::vector<std::string> names;
  for (const ExperimentReport& experiment : experiments) names.push_back(experiment.name);
  const std::string title = names.empty() ? "No records" : join(names, ", ");
  Page page(experiments);
  const std::string results = page.results();
  const std::string details = page.details();
  return head_of(title + " – gptq-bench") + "<header>\n<h1>" + html_escape(title) + "</h1>\n" +
         "<p class=\"origin\">" + html_escape(origin_of(data.records)) + "</p>\n" +
         html_counts(data) + "</header>\n<main>\n" + html_problems(data, experiments) +
         page.links() + results + plots_of(data) + details + "</main>\n<script>" + kReportScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace gptqb
