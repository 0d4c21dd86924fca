#include "cli/views/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

namespace taut::cli {

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string counted(std::int64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string bar(double fraction, int width) {
  const auto full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * width));
  return fmt::format("[{:#<{}}{:-<{}}]", "", full, "", width - full);
}

std::string fit_name(const std::string& name, std::size_t width) {
  if (name.size() <= width) return name;
  const std::size_t back = (width - 2) / 2;
  return name.substr(0, width - 2 - back) + ".." + name.substr(name.size() - back);
}

std::string fit(const std::string& line, std::size_t width) {
  constexpr char kEscape = '\x1b';
  std::size_t columns = 0;
  std::size_t cut = line.size();  // where the "…" goes, if it is needed
  bool is_coloured = false;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == kEscape) {
      is_coloured = true;
      at = std::min(line.find('m', at), line.size() - 1) + 1;
      continue;
    }
    if (columns + 1 == width) cut = std::min(cut, at);
    if (++columns > width) {
      return width == 0 ? std::string()
                        : line.substr(0, cut) + "…" + (is_coloured ? "\x1b[0m" : "");
    }
    ++at;
    // The other bytes of a UTF-8 character.
    while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80U) ++at;
  }
  return line;
}

std::vector<std::string> aligned(const std::vector<Row>& rows, const std::vector<bool>& right) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool to_the_right = i < right.size() && right[i];
      line += to_the_right ? fmt::format("{:>{}}", row[i], widths[i])
                           : fmt::format("{:<{}}", row[i], widths[i]);
      if (i + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> histogram(const std::vector<std::pair<std::int64_t, std::uint64_t>>& bins,
                                   int width, int max_rows) {
  if (bins.empty()) return {};
  const std::int64_t first = bins.front().first;
  const std::int64_t values = bins.back().first - first + 1;
  // Each value has its own row if they are few; else rows are ranges of one length.
  const bool is_grouped = std::ssize(bins) > max_rows;
  const std::int64_t each = is_grouped ? (values + max_rows - 1) / max_rows : 1;
  std::map<std::int64_t, std::uint64_t> counts;  // by the row's first value
  std::uint64_t total = 0;
  for (const auto& [value, count] : bins) {
    counts[value - (value - first) % each] += count;
    total += count;
  }
  std::uint64_t most = 0;
  for (const auto& [value, count] : counts) most = std::max(most, count);
  std::vector<Row> rows;
  for (const auto& [value, count] : counts) {
    const double share = total == 0 ? 0 : static_cast<double>(count) / static_cast<double>(total);
    const double length = most == 0 ? 0 : static_cast<double>(count) / static_cast<double>(most);
    auto cells = static_cast<std::size_t>(std::lround(length * width));
    if (count > 0) cells = std::max<std::size_t>(cells, 1);
    const std::int64_t last = std::min(value + each, first + values) - 1;
    rows.push_back({last > value ? fmt::format("{}-{}", value, last) : fmt::format("{}", value),
                    fmt::format("{:.1f} %", 100 * share), grouped(static_cast<std::int64_t>(count)),
                    std::string(cells, '#')});
  }
  return aligned(rows, {true, true, true, false});
}

std::string track(std::int64_t first, std::int64_t last, std::int64_t at, std::int64_t bound,
                  int width) {
  std::string cells(static_cast<std::size_t>(width), '.');
  const double span = static_cast<double>(std::max<std::int64_t>(last - first, 1));
  const auto cell = [&](std::int64_t clock) {
    const double place = static_cast<double>(clock - first) / span;
    return static_cast<std::size_t>(std::lround(std::clamp(place, 0.0, 1.0) * (width - 1)));
  };
  if (bound >= first && bound <= last) cells[cell(bound)] = '|';
  cells[cell(at)] = 'o';
  return cells;
}

}  // namespace taut::cli
