#include "cli/playback/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/sweep/report/chart.hpp"

namespace taut::cli {
namespace {

constexpr double kTop = 14;
constexpr double kBelow = 44;
constexpr double kRight = 16;
constexpr double kLegend = 150;
constexpr double kLegendLine = 18;

std::string style_of(std::size_t style) {
  static constexpr std::array kDashes = {"none", "7 3", "2 3"};
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-dasharray=\"{}\"",
                     kOkabeIto[style % kOkabeIto.size()],
                     kDashes[style / kOkabeIto.size() % kDashes.size()]);
}

std::string number(double value) {
  return fmt::format("{:g}", std::round(1e6 * value) / 1e6);
}

}  // namespace

double PlotFrame::y(double value) const {
  return kTop + (1 - value / y_high) * height;
}

std::string cividis(double share) {
  const double t = std::clamp(share, 0.0, 1.0);
  const auto part = [](double value) {
    return static_cast<int>(std::lround(std::clamp(value, 0.0, 255.0)));
  };
  return fmt::format(
      "#{:02x}{:02x}{:02x}",
      part(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))),
      part(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))),
      part(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))));
}

std::string open_plot(const PlotFrame& frame, const std::string& title, bool has_legend) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      frame.left + frame.width + (has_legend ? kLegend : kRight), kTop + frame.height + kBelow,
      escape_html(title));
}

std::string close_plot() {
  return "</svg>\n";
}

std::string time_axis(const PlotFrame& frame) {
  const double bottom = kTop + frame.height;
  std::string svg;
  for (const double tick : ticks(0, frame.x_high, 6)) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#444\"/>",
        frame.x(tick), bottom, bottom + 4);
    svg += plot_text(frame.x(tick), bottom + 18, "middle", number(tick));
  }
  svg += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#444\"/>\n",
      frame.left, frame.left + frame.width, bottom);
  return svg + plot_text(frame.left + frame.width / 2, bottom + 36, "middle", "virtual time, s");
}

std::string value_axis(const PlotFrame& frame, const std::string& label, AxisValues values) {
  std::string svg;
  for (const double tick : ticks(0, frame.y_high, 5)) {
    if (values == AxisValues::kWhole && tick != std::round(tick)) continue;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>",
        frame.left, frame.left + frame.width, frame.y(tick));
    svg += plot_text(frame.left - 6, frame.y(tick) + 4, "end",
                     values == AxisValues::kPercent ? number(100 * tick) + " %" : number(tick));
  }
  return svg + fmt::format(
                   "<text text-anchor=\"middle\" transform=\"translate(14 {:.1f}) rotate(-90)\">{}"
                   "</text>\n",
                   kTop + frame.height / 2, escape_html(label));
}

std::string plot_line(const PlotFrame& frame, const PlotLine& line, std::size_t style,
                      bool has_dots) {
  std::string path;
  std::string dots;
  bool is_new = true;
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    if (!std::isfinite(line.y[i])) {
      is_new = true;
      continue;
    }
    const double x = frame.x(line.x[i]);
    const double y = frame.y(line.y[i]);
    path += fmt::format("{}{:.1f} {:.1f}", is_new ? "M" : "L", x, y);
    if (has_dots) {
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>", x, y,
                          kOkabeIto[style % kOkabeIto.size()]);
    }
    is_new = false;
  }
  if (path.empty()) return {};
  return fmt::format("<g><title>{}</title><path {} d=\"{}\"/>{}</g>\n", escape_html(line.name),
                     style_of(style), path, dots);
}

std::string plot_band(const PlotFrame& frame, const std::vector<double>& x,
                      const std::vector<double>& low, const std::vector<double>& high,
                      const std::string& fill) {
  std::string path;
  for (std::size_t i = 0; i < x.size(); ++i) {
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", frame.x(x[i]), frame.y(high[i]));
  }
  for (std::size_t i = x.size(); i-- > 0;) {
    path += fmt::format("L{:.1f} {:.1f}", frame.x(x[i]), frame.y(low[i]));
  }
  return path.empty() ? path : fmt::format("<path fill=\"{}\" d=\"{}Z\"/>\n", fill, path);
}

std::string plot_cell(double x, double y, double width, double height, const std::string& fill) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>", x, y,
      width, height, fill);
}

std::string plot_text(double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string legend_field(const PlotFrame& frame, std::size_t place, const std::string& fill,
                         const std::string& name) {
  const double x = frame.left + frame.width + 12;
  const double y = kTop + kLegendLine * static_cast<double>(place);
  return plot_cell(x, y + 2, 20, 11, fill) + plot_text(x + 26, y + 12, "start", name);
}

std::string legend_line(const PlotFrame& frame, std::size_t place, std::size_t style,
                        const std::string& name) {
  const double x = frame.left + frame.width + 12;
  const double y = kTop + kLegendLine * static_cast<double>(place) + 8;
  return fmt::format("<line {} x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     style_of(style), x, x + 20, y, y) +
         plot_text(x + 26, y + 4, "start", name);
}

}  // namespace taut::cli
