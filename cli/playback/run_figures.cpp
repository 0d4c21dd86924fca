#include "cli/playback/run_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "cli/playback/plot.hpp"

namespace taut::cli {
namespace {

// More workers than this are shown as quantiles, not as lines.
constexpr std::size_t kLines = 14;
// Named rows; of more hosts some are left out, of more links those with the least load.
constexpr std::size_t kRows = 32;
// Columns of pictures whose cells are rectangles.
constexpr std::size_t kColumns = 256;
constexpr std::size_t kStackColumns = 128;  // of those whose cells have several parts
constexpr double kRowHeight = 15;
// By state of a host: computing, waiting, paused, serving, away.
constexpr std::array kStateFills = {kOkabeIto[0], kOkabeIto[4], kOkabeIto[3], kOkabeIto[2],
                                    kOkabeIto[6]};
constexpr const char* kIdle = "#e6e6e6";
// The states of a host, from the bottom of its row.
constexpr std::array<std::size_t, PlayedRun::kStates> kStacked = {
    PlayedRun::kComputing, PlayedRun::kServing, PlayedRun::kPaused, PlayedRun::kWaiting,
    PlayedRun::kAway};

PlotFrame frame_of(const PlayedRun& run, double highest) {
  PlotFrame frame;
  frame.x_high = run.virtual_s;
  frame.y_high = highest > 0 ? 1.05 * highest : 1;
  return frame;
}

std::vector<double> times_of(const PlayedRun& run) {
  std::vector<double> times(run.bins);
  for (std::size_t bin = 0; bin < run.bins; ++bin) times[bin] = run.end_s(bin);
  return times;
}

/// The highest bound of the run; 0 if there is none.
double highest_bound(const PlayedRun& run) {
  double highest = 0;
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    highest = std::max(highest, run.bound_at(bin).value_or(0));
  }
  return highest;
}

/// The bound over time, dashed: a line, or steps if a policy moves it.
std::string bound_svg(const PlayedRun& run, const PlotFrame& frame) {
  std::string path;
  std::optional<double> last;
  double low = 0;
  double high = 0;
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    const std::optional<double> bound = run.bound_at(bin);
    if (bound && bound != last) {
      const double x = frame.x(run.bin_s * static_cast<double>(bin));
      path += last ? fmt::format("H{:.1f}V{:.1f}", x, frame.y(*bound))
                   : fmt::format("M{:.1f} {:.1f}", x, frame.y(*bound));
      low = last ? std::min(low, *bound) : *bound;
      high = std::max(high, *bound);
    }
    last = bound;
  }
  if (!last) return {};
  path += fmt::format("H{:.1f}", frame.left + frame.width);
  const std::string name = low == high ? fmt::format("bound: slack {:g}", high)
                                       : fmt::format("bound: slack {:g} to {:g}", low, high);
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"#000\" stroke-dasharray=\"6 4\"/>\n",
                     path) +
         plot_text(frame.left + 4, frame.y(high) - 4, "start", name);
}

/// The clocks of all workers over time: each, or for many workers their quantiles.
/// from_slowest  relative to the slowest worker's
std::string clocks_svg(const PlayedRun& run, const std::string& title, bool from_slowest) {
  const std::vector<double> times = times_of(run);
  constexpr std::array kQuantiles = {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0};
  std::array<std::vector<double>, kQuantiles.size()> quantiles;
  std::vector<double> slowest(run.bins);
  double highest = from_slowest ? highest_bound(run) : 0;
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    std::vector<std::int32_t> clocks = clocks_at(run, bin);
    if (clocks.empty()) clocks.push_back(bin > 0 ? static_cast<std::int32_t>(slowest[bin - 1]) : 0);
    slowest[bin] = clocks.front();
    const double base = from_slowest ? slowest[bin] : 0;
    for (std::size_t i = 0; i < kQuantiles.size(); ++i) {
      const double at = kQuantiles[i] * static_cast<double>(clocks.size() - 1);
      quantiles[i].push_back(clocks[static_cast<std::size_t>(std::lround(at))] - base);
    }
    highest = std::max(highest, quantiles.back().back());
  }
  const PlotFrame frame = frame_of(run, highest);
  std::string svg =
      open_plot(frame, title, true) +
      value_axis(frame, from_slowest ? "clocks ahead" : "clocks", AxisValues::kWhole) +
      time_axis(frame);
  if (run.workers.size() > kLines) {
    constexpr std::array kFills = {"#cfe3f1", "#94c1de", "#4f98c6"};
    constexpr std::array kNames = {"all workers", "10 to 90 %", "25 to 75 %"};
    for (std::size_t i = 0; i < kFills.size(); ++i) {
      svg += plot_band(frame, times, quantiles[i], quantiles[quantiles.size() - 1 - i], kFills[i]);
      svg += legend_field(frame, i, kFills[i], kNames[i]);
    }
    constexpr std::size_t kBlack = 6;
    svg += plot_line(frame, {"median", times, quantiles[3]}, kBlack) +
           legend_line(frame, kFills.size(), kBlack, "median");
  } else {
    for (std::size_t i = 0; i < run.workers.size(); ++i) {
      const PlayedRun::Worker& worker = run.workers[i];
      PlotLine line{worker.name, times, std::vector<double>(run.bins, NAN)};
      for (std::size_t bin = 0; bin < run.bins; ++bin) {
        if (worker.clock[bin] < 0) continue;
        line.y[bin] = worker.clock[bin] - (from_slowest ? slowest[bin] : 0);
      }
      svg += plot_line(frame, line, i) + legend_line(frame, i, i, worker.name);
    }
  }
  if (from_slowest) svg += bound_svg(run, frame);
  return svg + close_plot();
}

std::string curve_svg(const PlayedRun& run, const std::string& title, const std::string& label,
                      const PlotLine& line, bool percent, bool has_dots) {
  double highest = 0;
  for (const double y : line.y) {
    if (std::isfinite(y)) highest = std::max(highest, y);
  }
  const PlotFrame frame = frame_of(run, highest);
  return open_plot(frame, title, false) +
         value_axis(frame, label, percent ? AxisValues::kPercent : AxisValues::kNumbers) +
         time_axis(frame) + plot_line(frame, line, 0, has_dots) + close_plot();
}

/// A curve of a figure that has a value in most bins.
/// reach  bins on both sides over which the mean is taken, by length: the last one is shorter
PlotLine line_of(const PlayedRun& run, const char* name, const PlayedRun::Figures& row,
                 std::size_t reach) {
  PlotLine line{name, {}, {}};
  for (std::size_t bin = 0; bin < row.size(); ++bin) {
    double sum = 0;
    double weight = 0;
    for (std::size_t i = bin - std::min(bin, reach); i < std::min(row.size(), bin + reach + 1);
         ++i) {
      if (!row[i]) continue;
      const double length_s = run.end_s(i) - run.bin_s * static_cast<double>(i);
      sum += *row[i] * length_s;
      weight += length_s;
    }
    if (weight <= 0) continue;
    line.x.push_back(run.end_s(bin));
    line.y.push_back(sum / weight);
  }
  return line;
}

/// What the workers' hosts do, as shares of all their time.
std::string states_svg(const PlayedRun& run, const std::string& title) {
  const std::vector<double> times = times_of(run);
  const PlotFrame frame = [&] {
    PlotFrame whole = frame_of(run, 1);
    whole.y_high = 1;
    return whole;
  }();
  std::string svg = open_plot(frame, title, true) +
                    plot_cell(frame.left, frame.y(1), frame.width, frame.height, kIdle);
  double workers = 0;
  for (const PlayedRun::Host& host : run.hosts) workers += static_cast<double>(host.workers);
  std::vector<double> low(run.bins);
  std::size_t place = 0;
  for (const std::size_t state :
       {PlayedRun::kComputing, PlayedRun::kPaused, PlayedRun::kWaiting, PlayedRun::kAway}) {
    std::vector<double> high = low;
    bool is_used = false;
    for (const PlayedRun::Host& host : run.hosts) {
      if (host.workers == 0 || host.shares[state].empty()) continue;
      is_used = true;
      const double weight = static_cast<double>(host.workers) / workers;
      for (std::size_t bin = 0; bin < run.bins; ++bin) {
        high[bin] += weight * PlayedRun::share(host.shares[state], bin);
      }
    }
    if (!is_used) continue;
    for (double& one : high) one = std::min(one, 1.0);
    svg += plot_band(frame, times, low, high, kStateFills[state]) +
           legend_field(frame, place++, kStateFills[state], PlayedRun::kStateNames[state]);
    low = std::move(high);
  }
  return svg + legend_field(frame, place, kIdle, "other") +
         value_axis(frame, "workers", AxisValues::kPercent) + time_axis(frame) + close_plot();
}

/// A row of cells; equal neighbours are merged.
/// fill_of  the color of the bins from one to another
template <class FillOf>
std::string cells_of(const PlayedRun& run, const PlotFrame& frame, double y, FillOf fill_of) {
  const std::size_t step = std::max<std::size_t>(1, (run.bins + kColumns - 1) / kColumns);
  std::string svg;
  std::string last;
  double from = 0;
  const auto draw = [&](double to) {
    if (!last.empty() && to > from) {
      svg += plot_cell(frame.x(from), y, frame.x(to) - frame.x(from), kRowHeight - 1, last);
    }
    from = to;
  };
  for (std::size_t bin = 0; bin < run.bins; bin += step) {
    const std::string fill = fill_of(bin, std::min(run.bins, bin + step));
    if (fill == last) continue;
    draw(run.bin_s * static_cast<double>(bin));
    last = fill;
  }
  draw(run.virtual_s);
  return svg + "\n";
}

PlotFrame rows_frame(const PlayedRun& run, std::size_t rows) {
  PlotFrame frame = frame_of(run, 1);
  frame.left = 130;
  frame.height = kRowHeight * static_cast<double>(rows);
  return frame;
}

/// A name that fits in front of a row.
std::string row_name(const PlotFrame& frame, double y, const std::string& name) {
  constexpr std::size_t kMaxNameLength = 18;
  if (name.size() <= kMaxNameLength) return plot_text(frame.left - 6, y + 11, "end", name);
  std::size_t end = kMaxNameLength - 1;
  while ((static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;  // within a character
  return plot_text(frame.left - 6, y + 11, "end", name.substr(0, end) + "…");
}

double mean_share(const PlayedRun::Shares& row, std::size_t from, std::size_t to) {
  double sum = 0;
  for (std::size_t bin = from; bin < to; ++bin) sum += PlayedRun::share(row, bin);
  return sum / static_cast<double>(to - from);
}

/// A host's states in the bins from one to another, stacked from the bottom of its row: the top of
/// each; never more than all of its time.
std::array<double, kStacked.size()> stack_of(const PlayedRun::Host& host, std::size_t from,
                                             std::size_t to) {
  std::array<double, kStacked.size()> tops{};
  double sum = 0;
  for (std::size_t i = 0; i < tops.size(); ++i) {
    sum += mean_share(host.shares[kStacked[i]], from, to);
    tops[i] = sum;
  }
  for (double& top : tops) top /= std::max(1.0, sum);
  return tops;
}

/// A host's row: its states stacked in each column, as one area for each of them.
std::string host_row(const PlayedRun& run, const PlayedRun::Host& host, const PlotFrame& frame,
                     double y) {
  constexpr double kHigh = kRowHeight - 1;
  const std::size_t step = std::max<std::size_t>(1, (run.bins + kStackColumns - 1) / kStackColumns);
  std::array<std::string, kStacked.size()> there;  // along the top, and back along the bottom
  std::array<std::string, kStacked.size()> back;
  std::array<bool, kStacked.size()> is_used{};
  for (std::size_t bin = 0; bin < run.bins; bin += step) {
    const std::size_t end = std::min(run.bins, bin + step);
    const auto tops = stack_of(host, bin, end);
    const double x = frame.x(run.bin_s * static_cast<double>(bin));
    const double x_end = frame.x(run.end_s(end - 1));
    double low = 0;
    for (std::size_t i = 0; i < tops.size(); ++i) {
      is_used[i] = is_used[i] || tops[i] > low;
      there[i] += fmt::format("V{:.1f}H{:.1f}", y + kHigh * (1 - tops[i]), x_end);
      back[i] = fmt::format("V{:.1f}H{:.1f}", y + kHigh * (1 - low), x) + back[i];
      low = tops[i];
    }
  }
  std::string svg = plot_cell(frame.left, y, frame.width, kHigh, kIdle);
  for (std::size_t i = 0; i < kStacked.size(); ++i) {
    if (!is_used[i]) continue;
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}{}{}Z\" fill=\"{}\"/>\n", frame.left, y + kHigh,
                       there[i], back[i], kStateFills[kStacked[i]]);
  }
  return svg;
}

/// What each host does over time: the shares of its states.
std::string hosts_svg(const PlayedRun& run, const std::string& title) {
  const std::size_t step = (run.hosts.size() + kRows - 1) / kRows;
  const std::size_t rows = (run.hosts.size() + step - 1) / step;
  const PlotFrame frame = rows_frame(run, std::max<std::size_t>(rows, 7));
  std::string svg = open_plot(
      frame, step == 1 ? title : fmt::format("{}: every {}th of {}", title, step, run.hosts.size()),
      true);
  std::array<bool, PlayedRun::kStates> is_used{};
  for (std::size_t row = 0; row < rows; ++row) {
    const PlayedRun::Host& host = run.hosts[row * step];
    const double y = frame.y(1) + kRowHeight * static_cast<double>(row);
    svg += row_name(frame, y, host.name) + host_row(run, host, frame, y);
    for (std::size_t state = 0; state < is_used.size(); ++state) {
      is_used[state] = is_used[state] || mean_share(host.shares[state], 0, run.bins) > 0;
    }
  }
  std::size_t place = 0;
  for (const std::size_t state : kStacked) {
    if (!is_used[state]) continue;
    svg += legend_field(frame, place++, kStateFills[state], PlayedRun::kStateNames[state]);
  }
  return svg + legend_field(frame, place, kIdle, "idle") + time_axis(frame) + close_plot();
}

/// The load of the busiest links over time.
std::string links_svg(const PlayedRun& run, const std::string& title) {
  std::vector<std::size_t> order(run.links.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return run.links[i].busy_share; });
  order.resize(std::min(order.size(), kRows));
  const PlotFrame frame = rows_frame(run, std::max<std::size_t>(order.size(), 7));
  std::string svg = open_plot(
      frame,
      order.size() == run.links.size()
          ? title
          : fmt::format("{}: the busiest {} of {}", title, order.size(), run.links.size()),
      true);
  double top = 0;  // the highest load
  for (const std::size_t link : order) {
    for (const std::int32_t load : run.links[link].load) top = std::max(top, load / 1000.0);
  }
  if (top <= 0) top = 1;
  constexpr int kShades = 20;
  for (std::size_t row = 0; row < order.size(); ++row) {
    const PlayedRun::Link& link = run.links[order[row]];
    const double y = frame.y(1) + kRowHeight * static_cast<double>(row);
    svg += row_name(frame, y, link.name);
    svg += cells_of(run, frame, y, [&](std::size_t from, std::size_t to) {
      return cividis(std::round(mean_share(link.load, from, to) / top * kShades) / kShades);
    });
  }
  for (std::size_t i = 0; i < 6; ++i) {
    const double part = 1 - 0.2 * static_cast<double>(i);
    svg += legend_field(frame, i, cividis(part), fmt::format("{:.3g} % load", 100 * part * top));
  }
  return svg + time_axis(frame) + close_plot();
}

}  // namespace

std::vector<Figure> figures_of(const PlayedRun& run) {
  std::vector<Figure> figures;
  if (run.bins == 0) return figures;
  const auto add = [&](const char* name, const char* title, auto draw) {
    figures.push_back({name, title, draw(title)});
  };
  const auto curve = [&](const char* label, const PlayedRun::Figures& row, std::size_t reach) {
    return [&run, label, &row, reach](const char* title) {
      return curve_svg(run, title, label, line_of(run, label, row, reach), false, false);
    };
  };
  // A bin may or may not contain a clock's end: these are drawn as means over a sixtieth of the
  // run.
  const std::size_t smooth = std::max<std::size_t>(1, run.bins / 120);
  add("clocks", "Clocks of the workers",
      [&](const char* title) { return clocks_svg(run, title, false); });
  add("lead", "How far workers are ahead of the slowest one",
      [&](const char* title) { return clocks_svg(run, title, true); });
  add("states", "What the workers' hosts do",
      [&](const char* title) { return states_svg(run, title); });
  add("hosts", "What each host does", [&](const char* title) { return hosts_svg(run, title); });
  if (!run.links.empty()) {
    add("links", "Load of the links", [&](const char* title) { return links_svg(run, title); });
  }
  add("rate", "Iterations of all workers", curve("iterations/s", run.iterations_per_s, smooth));
  if (!run.loss.empty()) add("loss", "Training loss", curve("loss", run.loss, 0));
  if (!run.staleness.empty()) {
    add("staleness", "Mean staleness of reads", curve("clocks", run.staleness, smooth));
  }
  PlotLine tests{"accuracy", {}, {}};
  for (const PlayedRun::Test& test : run.tests) {
    if (!test.accuracy) continue;
    tests.x.push_back(test.at_s);
    tests.y.push_back(*test.accuracy);
  }
  if (!tests.x.empty()) {
    add("accuracy", "Test accuracy", [&](const char* title) {
      return curve_svg(run, title, "test accuracy", tests, true, true);
    });
  }
  return figures;
}

}  // namespace taut::cli
