#include "runner/report/plot_files.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/hash.h"

namespace gptqb {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

// What has no place in a drawing that becomes part of a page.
std::string refusal(const std::string& svg) {
  const std::string text = lower_case(svg);
  for (const char* banned : {"<script", "<foreignobject", "<iframe", "<image", "<a ", "<!entity",
                             "javascript:", "@import", "<animate", "<set"})
    if (text.find(banned) != std::string::npos) return std::string("it has ") + banned;
  static const std::regex kHandler("[\\s\"'/]on[a-z]+\\s*=");
  if (std::regex_search(text, kHandler)) return "it has an event handler";
  static const std::regex kOutside("(href\\s*=\\s*[\"'](?!#))|(url\\(\\s*[\"']?(?!#))");
  if (std::regex_search(text, kOutside)) return "it refers to something outside itself";
  return "";
}

std::string unescaped(std::string text) {
  for (const auto& [from, to] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++at)
      text.replace(at, std::string(from).size(), to);
  return text;
}

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t start = text.find(before);
  if (start == std::string::npos) return "";
  const size_t from = start + before.size();
  const size_t end = text.find(after, from);
  return end == std::string::npos ? "" : text.substr(from, end - from);
}

PlotFile read_plot(const std::filesystem::path& path) {
  PlotFile plot;
  plot.name = path.stem().string();
  plot.title = plot.name;
  try {
    const std::string text = read_file(path);
    const size_t start = text.find("<svg");
    const size_t end = text.rfind("</svg>");
    if (start == std::string::npos || end == std::string::npos || end < start) {
      plot.refused = "it is no SVG file";
      return plot;
    }
    const std::string svg = text.substr(start, end + 6 - start);
    plot.refused = refusal(svg);
    if (!plot.refused.empty()) return plot;
    plot.svg = svg;
    plot.inputs = between(svg, "data-inputs=\"", "\"");
    if (const std::string title = between(svg, "<title>", "</title>"); !title.empty())
      plot.title = unescaped(title);
  } catch (const Error& error) {
    plot.refused = error.what();
  }
  return plot;
}

}  // namespace

std::vector<PlotFile> load_plots(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "plots", absent)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".svg" && name[0] != '.' && !name.starts_with("roofline"))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<PlotFile> plots;
  for (const auto& file : files) plots.push_back(read_plot(file));
  return plots;
}

std::string plot_inputs(const std::string& results_csv, const std::string& layers_csv,
                        const std::string& kernels_csv) {
  Sha256 hash;
  hash.add(results_csv);
  hash.add(layers_csv);
  hash.add(kernels_csv);
  return hash.hex();
}

}  // namespace gptqb
