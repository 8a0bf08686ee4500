// Plots that scripts/plots drew beside the tables, for report.html. The program itself needs none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gptqb {

struct PlotFile {
  std::string name;    // "perplexity_bits"
  std::string title;   // of the SVG, plain text
  std::string svg;     // one <svg> element that may stand inside a page
  std::string inputs;  // plot_inputs() of what it was drawn from
  // Why it is not shown; empty: it is.
  std::string refused;
};

// <folder>/plots/*.svg by name, but not the rooflines, which reports draw themselves. A file that
// is no plain drawing (it has a script, an event handler, an entity, or refers to something
// outside itself) is refused.
std::vector<PlotFile> load_plots(const std::filesystem::path& folder);

// Identity of the tables that plots are drawn beside: SHA-256 of the bytes of results.csv,
// layers.csv and kernels.csv one after the other. A plot whose `data-inputs` differs shows
// something else.
std::string plot_inputs(const std::string& results_csv, const std::string& layers_csv,
                        const std::string& kernels_csv);

}  // namespace gptqb
