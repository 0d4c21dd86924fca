#include "cli/sweep/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/sweep/statistics.hpp"

namespace taut::cli {
namespace {

constexpr double kWidth = 452;
constexpr double kHeight = 290;
constexpr double kLeft = 68;
constexpr double kRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 46;

constexpr std::array<const char*, kSeriesStyles> kDashes = {"",    "7 3", "2 3",  "9 3 2 3",
                                                            "5 5", "1 4", "12 3", "6 2 2 2"};

/// A marker of a style, about 8 wide.
std::string marker(std::size_t style, double x, double y) {
  const std::string fill = fmt::format("fill=\"var(--s{})\"", style % kSeriesStyles);
  const auto polygon = [&](const std::string& points) {
    return fmt::format("<polygon {} points=\"{}\" transform=\"translate({:.1f} {:.1f})\"/>", fill,
                       points, x, y);
  };
  switch (style % kSeriesStyles) {
    case 1:
      return polygon("-4,-4 4,-4 4,4 -4,4");
    case 2:
      return polygon("0,-5 5,4 -5,4");
    case 3:
      return polygon("0,-5.5 5.5,0 0,5.5 -5.5,0");
    case 4:
      return polygon("0,5 5,-4 -5,-4");
    case 5:
      return polygon(
          "-1.5,-5 1.5,-5 1.5,-1.5 5,-1.5 5,1.5 1.5,1.5 1.5,5 -1.5,5 -1.5,1.5 -5,1.5 "
          "-5,-1.5 -1.5,-1.5");
    case 6:
      return polygon("-5,-2 0,-5.5 5,-2 3,4.5 -3,4.5");
    case 7:
      return polygon("-2,-5 5,0 -2,5");
    default:
      return fmt::format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", fill, x, y);
  }
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& kind = "t") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                     kind, x, y, anchor, escape_html(text));
}

/// How wide a name of class "t" is at most.
double width_of(const std::string& name) {
  return 7.5 * static_cast<double>(name.size());
}

/// Names centered under categories, `step` apart. If one is too wide, all of them are slanted, and
/// `below` is how far down they reach.
struct CategoryNames {
  std::string svg;
  double below = 18;
};

CategoryNames category_names(const std::vector<DotCategory>& categories, double step) {
  double widest = 0;
  for (const DotCategory& category : categories) {
    widest = std::max(widest, width_of(category.name));
  }
  const bool lean = widest > step;
  CategoryNames names;
  if (lean) names.below = 14 + 0.71 * widest;
  for (std::size_t i = 0; i < categories.size(); ++i) {
    const double x = kLeft + step * (static_cast<double>(i) + 0.5);
    const double y = kHeight - kBottom + (lean ? 14 : 18);
    names.svg += lean ? fmt::format(
                            "<text class=\"t\" text-anchor=\"end\" transform=\"translate("
                            "{:.1f} {:.1f}) rotate(-45)\">{}</text>",
                            x + 4, y, escape_html(categories[i].name))
                      : text_at(x, y, "middle", categories[i].name);
  }
  return names;
}

std::string line(double x1, double y1, double x2, double y2, const std::string& kind) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     kind, x1, y1, x2, y2);
}

std::string tick_label(double value, bool percent) {
  if (percent) return fmt::format("{:g} %", std::round(1e4 * value) / 100);
  if (std::abs(value) >= 10000) return fmt::format("{:g}k", value / 1000);
  return fmt::format("{:g}", std::round(1e6 * value) / 1e6);
}

/// A deviation next to its mean: with enough digits that it is not shown as 0.
std::string deviation_label(double value, bool percent) {
  const double shown = percent ? 100 * value : value;
  if (shown <= 0) return "0";
  const int digits = std::clamp(1 - static_cast<int>(std::floor(std::log10(shown))), 0, 9);
  return fmt::format("{:.{}f}{}", shown, digits, percent ? " %" : "");
}

std::string value_label(double value, bool percent) {
  if (percent) return fmt::format("{:.1f} %", 100 * value);
  if (value >= 10000) return fmt::format("{:.1f}k", value / 1000);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

/// The frame of a chart: a scale for each axis.
struct Scale {
  double x_low, x_high, y_low, y_high;

  [[nodiscard]] double x(double value) const {
    const double span = std::max(x_high - x_low, 1e-12);
    return kLeft + (value - x_low) / span * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    const double span = std::max(y_high - y_low, 1e-12);
    return kHeight - kBottom - (value - y_low) / span * (kHeight - kTop - kBottom);
  }
};

/// note   added after the title; may be empty
std::string open_svg(const ChartText& text, double height, const std::string& note = "") {
  const std::string shown =
      note.empty() ? "" : " <span class=\"soft\">" + escape_html(note) + "</span>";
  return fmt::format(
      "<figure><figcaption>{0}{3}</figcaption><svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{0}\">",
      escape_html(text.title), kWidth, height, shown);
}

std::string y_axis(const Scale& scale, const std::string& label, bool percent) {
  std::string svg;
  for (const double tick : ticks(scale.y_low, scale.y_high, 5)) {
    svg += line(kLeft, scale.y(tick), kWidth - kRight, scale.y(tick), "grid");
    svg += text_at(kLeft - 6, scale.y(tick) + 4, "end", tick_label(tick, percent));
  }
  const double middle = (kTop + kHeight - kBottom) / 2;
  return svg + fmt::format(
                   "<text class=\"t\" text-anchor=\"middle\" transform=\"translate(12 {:.1f}) "
                   "rotate(-90)\">{}</text>",
                   middle, escape_html(label));
}

std::string x_axis(const Scale& scale, const std::string& label) {
  std::string svg = line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "axis");
  for (const double tick : ticks(scale.x_low, scale.x_high, 6)) {
    svg += line(scale.x(tick), kHeight - kBottom, scale.x(tick), kHeight - kBottom + 4, "axis");
    svg += text_at(scale.x(tick), kHeight - kBottom + 18, "middle", tick_label(tick, false));
  }
  return svg + text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", label);
}

std::string band_path(const Scale& scale, const Band& band) {
  std::string path;
  const auto point = [&](std::size_t i, double sign) {
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", scale.x(band.x[i]),
                        scale.y(band.mean[i] + sign * band.deviation[i]));
  };
  for (std::size_t i = 0; i < band.x.size(); ++i) point(i, 1);
  for (std::size_t i = band.x.size(); i-- > 0;) point(i, -1);
  return path + "Z";
}

std::string mean_path(const Scale& scale, const Band& band) {
  std::string path;
  for (std::size_t i = 0; i < band.x.size(); ++i) {
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", scale.x(band.x[i]),
                        scale.y(band.mean[i]));
  }
  return path;
}

/// A marker at the end, and at distances along the line that differ from style to style, so that
/// the markers of overlapping lines stay apart.
std::string markers_along(const Scale& scale, const Band& band, std::size_t style) {
  constexpr double kBetween = 62;  // of the chart's width
  const double first = kLeft + kBetween * (static_cast<double>(style) + 1) /
                                   (static_cast<double>(kSeriesStyles) + 1);
  std::string svg;
  double next = first;
  for (std::size_t i = 0; i < band.x.size(); ++i) {
    const double x = scale.x(band.x[i]);
    const bool is_last = i + 1 == band.x.size();
    if (!is_last && x < next) continue;
    svg += marker(style, x, scale.y(band.mean[i]));
    while (next <= x) next += kBetween;
  }
  return svg;
}

std::string draw_band(const Scale& scale, const BandSeries& series) {
  if (series.band.x.empty()) return {};
  const std::size_t style = series.style % kSeriesStyles;
  std::string svg = fmt::format("<g><title>{}</title>", escape_html(series.name));
  svg += fmt::format("<path d=\"{}\" fill=\"var(--s{})\" opacity=\"0.15\"/>",
                     band_path(scale, series.band), style);
  svg += fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"var(--s{})\" stroke-width=\"2\" "
      "stroke-dasharray=\"{}\"/>",
      mean_path(scale, series.band), style, kDashes[style]);
  return svg + markers_along(scale, series.band, style) + "</g>";
}

/// Whether the lines leave the chart, in words; empty if they do not.
std::string what_is_cut(const LineChart& chart) {
  double least = chart.low;
  double most = chart.high;
  for (const BandSeries& series : chart.series) {
    for (const double mean : series.band.mean) {
      if (!std::isfinite(mean)) continue;
      least = std::min(least, mean);
      most = std::max(most, mean);
    }
  }
  std::string text;
  if (most > chart.high) {
    text = fmt::format("cut off: up to {}", value_label(most, chart.percent));
  }
  if (least < chart.low) {
    text += fmt::format("{}down to {}", text.empty() ? "cut off: " : ", ",
                        value_label(least, chart.percent));
  }
  return text;
}

/// One category of a dot chart, around x.
std::string draw_dots(const Scale& scale, const DotCategory& category, double x, bool percent) {
  const std::size_t style = category.style % kSeriesStyles;
  if (category.values.empty()) {
    return text_at(x, kHeight - kBottom - 10, "middle", category.note, "t small");
  }
  const Spread spread = spread_of(category.values);
  const double top = scale.y(spread.mean + spread.deviation);
  const double bottom = scale.y(spread.mean - spread.deviation);
  std::string svg = fmt::format("<g><title>{}: {} ± {}, {} values</title>",
                                escape_html(category.name), value_label(spread.mean, percent),
                                deviation_label(spread.deviation, percent), spread.count);
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"26\" height=\"{:.1f}\" rx=\"3\" "
      "fill=\"var(--s{})\" opacity=\"0.2\"/>",
      x - 13, top, std::max(bottom - top, 1.0), style);
  svg += fmt::format(
      "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
      "stroke=\"var(--s{})\" stroke-width=\"3\"/>",
      x - 13, x + 13, scale.y(spread.mean), scale.y(spread.mean), style);
  double highest = spread.mean + spread.deviation;
  for (std::size_t i = 0; i < category.values.size(); ++i) {
    const double aside = 5.0 * (static_cast<double>(i % 3) - 1);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"var(--s{})\"/>",
                       x + aside, scale.y(category.values[i]), style);
    highest = std::max(highest, category.values[i]);
  }
  svg += text_at(x, scale.y(highest) - 8, "middle", value_label(spread.mean, percent), "t small");
  if (!category.note.empty()) {
    svg += text_at(x, scale.y(highest) - 21, "middle", category.note, "t small");
  }
  return svg + "</g>";
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> values;
  for (double at = std::ceil(low / step - 1e-9) * step; at <= high + 1e-9 * step; at += step) {
    values.push_back(std::abs(at) < 1e-12 ? 0 : at);
  }
  return values;
}

std::string swatch(std::size_t style) {
  return fmt::format(
      "<svg class=\"swatch\" viewBox=\"0 0 34 14\" aria-hidden=\"true\"><line x1=\"0\" "
      "x2=\"34\" y1=\"7\" y2=\"7\" stroke=\"var(--s{0})\" stroke-width=\"2\" "
      "stroke-dasharray=\"{1}\"/>{2}</svg>",
      style % kSeriesStyles, kDashes[style % kSeriesStyles], marker(style, 17, 7));
}

std::string line_chart(const LineChart& chart) {
  double right = 0;
  for (const BandSeries& series : chart.series) {
    if (!series.band.x.empty()) right = std::max(right, series.band.x.back());
  }
  const Scale scale{0, right, chart.low, chart.high};
  std::string svg = open_svg(chart.text, kHeight, what_is_cut(chart));
  // The name need not be unique: every chart's frame is the same.
  svg += fmt::format(
      "<clipPath id=\"frame\"><rect x=\"{0}\" y=\"{1}\" width=\"{2}\" "
      "height=\"{3}\"/></clipPath>",
      kLeft, kTop - 6, kWidth - kLeft - kRight + 8, kHeight - kTop - kBottom + 6);
  svg += y_axis(scale, chart.text.y_label, chart.percent) + x_axis(scale, chart.text.x_label);
  const bool has_mark = chart.mark && *chart.mark > chart.low && *chart.mark < chart.high;
  if (has_mark) {
    svg += line(kLeft, scale.y(*chart.mark), kWidth - kRight, scale.y(*chart.mark), "mark");
  }
  svg += "<g clip-path=\"url(#frame)\">";
  for (const BandSeries& series : chart.series) svg += draw_band(scale, series);
  svg += "</g>";
  // Words are drawn last, with an outline in the background's color, so that no line crosses them.
  if (has_mark) {
    svg += text_at(kWidth - kRight - 4, scale.y(*chart.mark) + 15, "end",
                   fmt::format("target {}", tick_label(*chart.mark, chart.percent)), "t small rim");
  }
  return svg + "</svg></figure>\n";
}

std::string dot_chart(const DotChart& chart) {
  double high = 0;
  for (const DotCategory& category : chart.categories) {
    const Spread spread = spread_of(category.values);
    high = std::max(high, spread.mean + spread.deviation);
    for (const double value : category.values) high = std::max(high, value);
  }
  const Scale scale{0, 1, 0, high > 0 ? high * 1.18 : 1};
  const double step =
      (kWidth - kLeft - kRight) / std::max(1.0, static_cast<double>(chart.categories.size()));
  const CategoryNames names = category_names(chart.categories, step);
  const double height = kHeight - 18 + names.below;
  std::string svg = open_svg(chart.text, height);
  svg += y_axis(scale, chart.text.y_label, chart.percent);
  svg += line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "axis") + names.svg;
  for (std::size_t i = 0; i < chart.categories.size(); ++i) {
    const double x = kLeft + step * (static_cast<double>(i) + 0.5);
    svg += draw_dots(scale, chart.categories[i], x, chart.percent);
  }
  svg += text_at((kLeft + kWidth - kRight) / 2, height - 8, "middle", chart.text.x_label);
  return svg + "</svg></figure>\n";
}

std::string histogram_chart(const ChartText& text, const std::vector<HistogramRow>& rows,
                            bool last_is_rest) {
  std::size_t bars = 1;
  for (const HistogramRow& row : rows) bars = std::max(bars, row.shares.size());
  constexpr double kRow = 44;
  const double height = kTop + kRow * static_cast<double>(rows.size()) + kBottom;
  const double step = (kWidth - kLeft - kRight) / static_cast<double>(bars);
  const auto name_of = [&](std::size_t bar) {
    return fmt::format("{}{}", bar, last_is_rest && bar + 1 == bars ? "+" : "");
  };
  std::string svg = open_svg(text, height);
  double base = kTop;
  for (const HistogramRow& row : rows) {
    base += kRow;
    double tallest = 1e-12;
    for (const double share : row.shares) tallest = std::max(tallest, share);
    svg += line(kLeft, base, kWidth - kRight, base, "grid");
    // A name that does not fit next to its row is drawn at the row's end, where bars are rarely
    // tall.
    svg += width_of(row.name) <= kLeft ? text_at(kLeft - 6, base - 4, "end", row.name)
                                       : text_at(kWidth - kRight, base - 28, "end", row.name);
    for (std::size_t i = 0; i < row.shares.size(); ++i) {
      if (row.shares[i] <= 0) continue;
      const double tall = std::max((kRow - 8) * row.shares[i] / tallest, 0.7);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--s{})\">"
          "<title>{}, {} behind: {:.1f} % of the reads</title></rect>",
          kLeft + step * static_cast<double>(i) + step * 0.1, base - tall, step * 0.8, tall,
          row.style % kSeriesStyles, escape_html(row.name), name_of(i), 100 * row.shares[i]);
    }
  }
  const std::size_t every = (bars + 8) / 9;
  for (std::size_t i = 0; i < bars; ++i) {
    if ((bars - 1 - i) % every != 0) continue;
    svg += text_at(kLeft + step * (static_cast<double>(i) + 0.5), base + 16, "middle", name_of(i));
  }
  svg += text_at((kLeft + kWidth - kRight) / 2, height - 8, "middle", text.x_label);
  return svg + "</svg></figure>\n";
}

}  // namespace taut::cli
