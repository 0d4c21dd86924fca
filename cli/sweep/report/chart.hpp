#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/curve.hpp"

namespace taut::cli {

/// Charts as inline SVG. Colors are the page's CSS variables --s0, --s1, ...; a series also has a
/// dash pattern and a marker, so that nothing depends on color alone.
inline constexpr std::size_t kSeriesStyles = 8;

struct ChartText {
  std::string title;
  std::string x_label;
  std::string y_label;
};

struct BandSeries {
  std::string name;
  std::size_t style = 0;
  Band band;
};

/// Lines with their spread as a band around them.
/// low, high  of the vertical axis; the lines are cut there
/// mark       a dashed horizontal line, with its label
struct LineChart {
  ChartText text;
  std::vector<BandSeries> series;
  double low = 0;
  double high = 1;
  bool percent = false;  // of the vertical axis
  std::optional<double> mark;
};
[[nodiscard]] std::string line_chart(const LineChart& chart);

/// For each category a dot for each value, their mean, and a standard deviation to both sides.
struct DotCategory {
  std::string name;
  std::size_t style = 0;
  std::vector<double> values;
  std::string note;  // shown instead if there are no values
};
struct DotChart {
  ChartText text;
  std::vector<DotCategory> categories;
  bool percent = false;
};
[[nodiscard]] std::string dot_chart(const DotChart& chart);

/// A histogram for each category, one below the other on one axis. Values start at 0; the last bar
/// may count everything beyond.
struct HistogramRow {
  std::string name;
  std::size_t style = 0;
  std::vector<double> shares;  // of 0, 1, 2, ...
};
[[nodiscard]] std::string histogram_chart(const ChartText& text,
                                          const std::vector<HistogramRow>& rows, bool last_is_rest);

/// A short line in a series' style, for legends.
[[nodiscard]] std::string swatch(std::size_t style);

/// Round numbers within [low, high], about `count` of them.
[[nodiscard]] std::vector<double> ticks(double low, double high, int count);

[[nodiscard]] std::string escape_html(const std::string& text);

}  // namespace taut::cli
