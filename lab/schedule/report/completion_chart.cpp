#include "lab/schedule/report/completion_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace taut::schedule {
namespace {

constexpr double kLeft = 60;
constexpr double kTop = 16;
constexpr double kWidth = 520;
constexpr double kHeight = 320;
constexpr double kLegend = 190;
constexpr double kBelow = 52;

constexpr std::array kColours = {"#000000", "#e69f00", "#56b4e9", "#009e73",
                                 "#0072b2", "#d55e00", "#cc79a7"};
constexpr std::array kDashes = {"", "7 3", "2 3"};

struct Axis {
  double low = 0;  // powers of ten
  double high = 1;

  [[nodiscard]] double x(double seconds) const {
    return kLeft + (std::log10(std::max(seconds, 1e-3)) - low) / (high - low) * kWidth;
  }
};

double y_of(double share) {
  return kTop + (1 - share) * kHeight;
}

std::string style_of(std::size_t i) {
  return fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\"",
                     kColours[i % kColours.size()], kDashes[i / kColours.size() % kDashes.size()]);
}

std::string frame(const Axis& axis) {
  std::string svg;
  for (int power = static_cast<int>(axis.low); power <= static_cast<int>(axis.high); ++power) {
    const double x = axis.x(std::pow(10.0, power));
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" "
        "stroke=\"#ddd\"/><text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">10"
        "<tspan dy=\"-5\" font-size=\"9\">{4}</tspan></text>\n",
        x, kTop, kTop + kHeight, kTop + kHeight + 18, power);
  }
  for (int percent = 0; percent <= 100; percent += 25) {
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5} %</text>\n",
        kLeft, kLeft + kWidth, y_of(percent / 100.0), kLeft - 6, y_of(percent / 100.0) + 4,
        percent);
  }
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">completion time in "
                   "seconds: jobs that took no longer</text>\n",
                   kLeft + kWidth / 2, kTop + kHeight + 42);
}

/// At most a few hundred points of a curve, including its ends.
std::string path_of(const Axis& axis, const std::vector<double>& took_s) {
  constexpr std::size_t kPoints = 400;
  const std::size_t step = std::max<std::size_t>(1, took_s.size() / kPoints);
  std::string path = fmt::format("M{:.1f} {:.1f}", axis.x(took_s.front()), y_of(0));
  for (std::size_t i = step - 1; i < took_s.size(); i += step) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(took_s.size());
    path += fmt::format("L{:.1f} {:.1f}", axis.x(took_s[i]), y_of(share));
  }
  return path + fmt::format("L{:.1f} {:.1f}", axis.x(took_s.back()), y_of(1));
}

}  // namespace

CompletionCurve completion_curve(const std::string& policy, std::span<const Job> jobs,
                                 std::span<const JobState> states) {
  CompletionCurve curve{.policy = policy, .took_s = {}};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    curve.took_s.push_back(states[i].ended_s - jobs[i].submit_s);
  }
  std::ranges::sort(curve.took_s);
  return curve;
}

std::string completion_svg(const std::vector<CompletionCurve>& curves) {
  double low = curves.front().took_s.front();
  double high = curves.front().took_s.back();
  for (const CompletionCurve& curve : curves) {
    low = std::min(low, curve.took_s.front());
    high = std::max(high, curve.took_s.back());
  }
  Axis axis{.low = std::floor(std::log10(std::max(low, 1e-3))),
            .high = std::ceil(std::log10(high))};
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Completion times of jobs by policy</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kLeft + kWidth + kLegend, kTop + kHeight + kBelow);
  svg += frame(axis);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const double x = kLeft + kWidth + 14;
    const double y = kTop + 12 + 18 * static_cast<double>(i);
    svg += fmt::format("<path {} d=\"{}\"/>\n", style_of(i), path_of(axis, curves[i].took_s));
    svg += fmt::format("<line {} x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", style_of(i), x, x + 30,
                       y, y);
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 36, y + 4, curves[i].policy);
  }
  return svg + "</svg>\n";
}

}  // namespace taut::schedule
