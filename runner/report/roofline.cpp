#include "runner/report/roofline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runner/report/html_text.h"
#include "runner/report/kernel_words.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

constexpr double kWidth = 900, kHeight = 560;
constexpr double kLeft = 80, kRight = 190, kTop = 50, kBottom = 60;

// A logarithmic axis: values to pixels.
struct Axis {
  double low, high;    // values at the ends, powers of ten
  double first, last;  // pixels there
  double at(double value) const {
    return first + (last - first) * std::log10(value / low) / std::log10(high / low);
  }
};

double power_below(double value) { return std::pow(10, std::floor(std::log10(value))); }
double power_above(double value) { return std::pow(10, std::ceil(std::log10(value) + 1e-9)); }

std::string number(double value) { return fixed_text(value, 1); }

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         html_escape(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
}

// The page and the ink follow the reader's choice of a light or a dark page; scripts/plots.py
// writes the same words, so that drawings on one page agree.
const std::string kPlotStyle =
    "<style>.gptqb-plot{color:#1d2125}.gptqb-page{fill:#ffffff}"
    "@media screen and (prefers-color-scheme:dark){.gptqb-plot{color:#e4e7ea}"
    ".gptqb-page{fill:#14171a}}</style>\n";

// Told apart by people who do not see red and green apart too, and against both pages (after Okabe
// and Ito's palette).
std::string colour_of(int64_t bits) {
  switch (bits) {
    case 2:
      return "#C86598";
    case 3:
      return "#C77700";
    case 4:
      return "#2F86C9";
    case 8:
      return "#1F9A74";
    default:
      return "#808890";
  }
}

std::string point(const KernelRow& row, const Axis& x, const Axis& y) {
  const double px = x.at(row.intensity()), py = y.at(row.tflop_per_s);
  const std::string place =
      row.dense() ? "<rect x=\"" + number(px - 4) + "\" y=\"" + number(py - 4) +
                        "\" width=\"8\" height=\"8\" fill=\"none\" stroke=\"" +
                        colour_of(row.bits) + "\" stroke-width=\"1.5\">"
                  : "<circle cx=\"" + number(px) + "\" cy=\"" + number(py) + "\" r=\"4\" fill=\"" +
                        colour_of(row.bits) + "\" fill-opacity=\"0.75\">";
  return place + "<title>" +
         html_escape(row.kernel + ", " + shape_words(row) + ", M " + std::to_string(row.m) + ", " +
                     weight_words(row) + ", " + row.dtype + ": " + significant_text(row.us, 3) +
                     " us, " + significant_text(row.tflop_per_s, 3) + " TFLOP/s") +
         "</title>" + (row.dense() ? "</rect>\n" : "</circle>\n");
}

}  // namespace

std::string roofline_svg(const Record& record) {
  if (record.kernels.empty()) return "";
  // One roof for each type that was measured.
  std::vector<std::pair<std::string, double>> dense;
  for (const Metric& metric : record.metrics)
    if (const std::string type = dense_rate_type(metric.name); !type.empty())
      dense.emplace_back(type, metric.value);
  const double read = 1e-3 * record.kernels.front().read_gb_per_s;  // TB/s: TFLOP/s per FLOP/B
  double roof = 0, least_x = 1e300, most_x = 0, least_y = 1e300;
  for (const auto& [type, rate] : dense) roof = std::max(roof, rate);
  for (const KernelRow& row : record.kernels) {
    least_x = std::min(least_x, row.intensity());
    most_x = std::max(most_x, row.intensity());
    least_y = std::min(least_y, row.tflop_per_s);
    roof = std::max(roof, row.dense_tflop_per_s);
  }
  const Axis x{power_below(least_x), power_above(std::max(most_x, 2 * roof / read)), kLeft,
               kWidth - kRight};
  const Axis y{power_below(least_y), power_above(roof), kHeight - kBottom, kTop};

  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) +
                    "\" height=\"" + number(kHeight) + "\" viewBox=\"0 0 " + number(kWidth) + " " +
                    number(kHeight) +
                    "\" font-family=\"sans-serif\" font-size=\"13\" class=\"gptqb-plot\" "
                    "role=\"img\" fill=\"currentColor\">\n" +
                    kPlotStyle + "<rect class=\"gptqb-page\" width=\"100%\" height=\"100%\"/>\n";
  const std::string& device = device_name(record.environment);
  svg += text_at(kLeft, 28, "start", "Kernels under the measured ceilings: " + device);
  const std::string grid = "stroke=\"currentColor\" stroke-opacity=\"0.15\"";
  for (double value = x.low; value <= x.high * 1.001; value *= 10) {
    svg += line(x.at(value), y.first, x.at(value), y.last, grid);
    svg += text_at(x.at(value), y.first + 20, "middle", number_text(value));
  }
  for (double value = y.low; value <= y.high * 1.001; value *= 10) {
    svg += line(x.first, y.at(value), x.last, y.at(value), grid);
    svg += text_at(x.first - 8, y.at(value) + 4, "end", number_text(value));
  }
  svg += text_at((x.first + x.last) / 2, kHeight - 14, "middle", "operations a byte");
  svg += "<text transform=\"translate(22 " + number((y.first + y.last) / 2) +
         ") rotate(-90)\" text-anchor=\"middle\">TFLOP/s</text>\n";

  const std::string roof_style = "stroke=\"currentColor\" stroke-width=\"1.5\"";
  // From where the slope enters the plot to where it meets the highest roof.
  const double from = std::max(x.low, y.low / read), to = roof / read;
  svg += line(x.at(from), y.at(from * read), x.at(to), y.at(roof), roof_style);
  svg += text_at(x.at(to) - 8, y.at(roof) - 8, "end",
                 "read " + significant_text(1e3 * read, 4) + " GB/s");
  for (const auto& [type, rate] : dense) {
    svg += line(x.at(rate / read), y.at(rate), x.last, y.at(rate), roof_style);
    svg += text_at(x.last + 6, y.at(rate) + 4, "start", type + " " + significant_text(rate, 3));
  }
  for (const KernelRow& row : record.kernels) svg += point(row, x, y);

  std::vector<int64_t> widths;
  for (const KernelRow& row : record.kernels)
    if (!row.dense() && std::find(widths.begin(), widths.end(), row.bits) == widths.end())
      widths.push_back(row.bits);
  std::sort(widths.begin(), widths.end());
  double height = kTop + 120;
  for (const int64_t bits : widths) {
    svg += "<circle cx=\"" + number(x.last + 14) + "\" cy=\"" + number(height - 4) +
           "\" r=\"4\" fill=\"" + colour_of(bits) + "\"/>\n" +
           text_at(x.last + 26, height, "start", std::to_string(bits) + " bits");
    height += 22;
  }
  svg += "<rect x=\"" + number(x.last + 10) + "\" y=\"" + number(height - 8) +
         "\" width=\"8\" height=\"8\" fill=\"none\" stroke=\"#808890\" stroke-width=\"1.5\"/>\n" +
         text_at(x.last + 26, height, "start", "dense product");
  return svg + "</svg>\n";
}

}  // namespace gptqb
