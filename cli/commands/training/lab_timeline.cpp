#include "cli/commands/training/lab_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

using lab::VirtualTimeline;
using Kind = VirtualTimeline::Kind;

constexpr int kCells = 54;
constexpr std::size_t kName = 18;
constexpr std::size_t kWorkers = 16;
constexpr std::size_t kServers = 8;
constexpr std::size_t kLinks = 6;
// By kind: what a cell shows if that kind takes most of it.
constexpr std::string_view kMarks = "#.-==";

/// Microseconds of each kind, by cell.
using Line = std::array<std::array<double, kMarks.size()>, kCells>;

double us(Duration duration) {
  return static_cast<double>(duration.count());
}

void enter(Line& line, Kind kind, double begin, double end, double cell) {
  for (int i = std::max(0, static_cast<int>(begin / cell)); i < kCells && cell * i < end; ++i) {
    line[static_cast<std::size_t>(i)][static_cast<std::size_t>(kind)] +=
        std::min(end, cell * (i + 1)) - std::max(begin, cell * i);
  }
}

std::string cells_of(const Line& line, double cell) {
  constexpr double kSeen = 0.2;  // of a cell
  std::string text;
  for (const auto& kinds : line) {
    const auto most = std::ranges::max_element(kinds);
    text += *most >= kSeen * cell ? kMarks[static_cast<std::size_t>(most - kinds.begin())] : ' ';
  }
  return text;
}

/// Messages that share a link are on it at once.
double busy(const Line& line, double cell) {
  double sum = 0;
  for (const auto& kinds : line) {
    for (const double one : kinds) sum += std::min(one, cell);
  }
  return sum;
}

/// One line of the drawing: for a process, or for a link.
struct Drawn {
  VirtualTimeline::Row row;
  Line line{};
};

std::vector<Drawn> lines_of(const VirtualTimeline& timeline, TimePoint end, double cell) {
  std::map<std::pair<bool, std::uint32_t>, Drawn> lines;
  for (const VirtualTimeline::Span& span : timeline.drawn()) {
    const bool is_link = span.row.kind == Kind::kLink;
    const auto [found, is_new] =
        lines.try_emplace({is_link, is_link ? span.row.lane : span.row.process});
    if (is_new) found->second.row = span.row;
    enter(found->second.line, span.row.kind, us(span.begin - timeline.drawn_begin()),
          us(std::min(span.end, end) - timeline.drawn_begin()), cell);
  }
  std::vector<Drawn> all;
  all.reserve(lines.size());
  for (const auto& [key, line] : lines) all.push_back(line);
  return all;
}

}  // namespace

std::vector<std::string> timeline_lines(const VirtualTimeline& timeline) {
  if (timeline.drawn().empty()) return {};
  TimePoint end = timeline.drawn_end();
  if (end == TimePoint::never()) {
    end = std::ranges::max_element(timeline.drawn(), {}, &VirtualTimeline::Span::end)->end;
  }
  const double cell = us(end - timeline.drawn_begin()) / kCells;
  if (cell <= 0) return {};
  constexpr double kUsPerMs = 1e3;
  std::vector<std::string> lines{
      "", fmt::format(
              "{:.3f} ms from {:.3f} s on: # computes, . waits, - pauses, = serves or is in use",
              us(end - timeline.drawn_begin()) / kUsPerMs,
              seconds(timeline.drawn_begin().since_origin()))};
  std::vector<Drawn> all = lines_of(timeline, end, cell);
  // Links by their load.
  const auto links = std::stable_partition(
      all.begin(), all.end(), [](const Drawn& one) { return one.row.kind != Kind::kLink; });
  std::ranges::stable_sort(links, all.end(), std::ranges::greater(),
                           [cell](const Drawn& one) { return busy(one.line, cell); });
  std::array<std::size_t, 3> shown{};
  constexpr std::array kLimits = {kWorkers, kServers, kLinks};
  for (const Drawn& one : all) {
    const std::size_t kind = one.row.kind == Kind::kLink ? 2 : one.row.kind == Kind::kServe ? 1 : 0;
    if (++shown[kind] > kLimits[kind]) continue;
    lines.push_back(fmt::format("  {:<{}} |{}|", fit_name(timeline.name_of(one.row), kName), kName,
                                cells_of(one.line, cell)));
  }
  for (std::size_t kind = 0; kind < shown.size(); ++kind) {
    if (shown[kind] <= kLimits[kind]) continue;
    lines.push_back(fmt::format("  and {} more {}", shown[kind] - kLimits[kind],
                                std::array{"workers", "servers", "links"}[kind]));
  }
  return lines;
}

}  // namespace taut::cli
