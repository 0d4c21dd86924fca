#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace taut::cli {

/// Parts of figures as SVG files that stand alone: no style sheet, white background, colors that
/// can be told apart with any color vision.

/// Source    Okabe and Ito, "Color Universal Design", 2008
inline constexpr std::array<const char*, 7> kOkabeIto = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                         "#e69f00", "#56b4e9", "#000000"};

/// A color from 0, dark blue, to 1, yellow, whose lightness ascends evenly.
/// Source    Nuñez, Anderton and Renslow, "Optimizing colormaps with consideration for color vision
///           deficiency", PLOS ONE 13 (2018): cividis; as d3-scale-chromatic approximates it
[[nodiscard]] std::string cividis(double share);

/// A rectangle with a scale along each side.
struct PlotFrame {
  double width = 460;
  double height = 240;
  double left = 64;
  double x_high = 1;  // both axes start from 0
  double y_high = 1;

  [[nodiscard]] double x(double value) const { return left + value / x_high * width; }
  [[nodiscard]] double y(double value) const;
};

/// Opens an SVG of a frame, with room for a legend at its right if it has one.
[[nodiscard]] std::string open_plot(const PlotFrame& frame, const std::string& title,
                                    bool has_legend);
[[nodiscard]] std::string close_plot();
[[nodiscard]] std::string time_axis(const PlotFrame& frame);
enum class AxisValues { kNumbers, kWhole, kPercent };
[[nodiscard]] std::string value_axis(const PlotFrame& frame, const std::string& label,
                                     AxisValues values);

struct PlotLine {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  // where not finite, the line is interrupted
};
/// A line in one of the colors; from the eighth on it is also dashed.
[[nodiscard]] std::string plot_line(const PlotFrame& frame, const PlotLine& line, std::size_t style,
                                    bool has_dots = false);
/// The area between two lines over the same x values.
[[nodiscard]] std::string plot_band(const PlotFrame& frame, const std::vector<double>& x,
                                    const std::vector<double>& low, const std::vector<double>& high,
                                    const std::string& fill);
/// A rectangle in the units of the picture.
[[nodiscard]] std::string plot_cell(double x, double y, double width, double height,
                                    const std::string& fill);
[[nodiscard]] std::string plot_text(double x, double y, const std::string& anchor,
                                    const std::string& text);
/// An entry of the legend at the right: a patch of a color, or a line in a style.
[[nodiscard]] std::string legend_field(const PlotFrame& frame, std::size_t place,
                                       const std::string& fill, const std::string& name);
[[nodiscard]] std::string legend_line(const PlotFrame& frame, std::size_t place, std::size_t style,
                                      const std::string& name);

}  // namespace taut::cli
