#include "proto/config/lab/lab_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/files/file.hpp"

namespace taut {
namespace {

constexpr Bytes kMaxText{256UL << 20U};
constexpr double kMax_ms = 1e7;
constexpr std::string_view kColumn = "compute_s";

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t end = line.find(',');
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<std::vector<double>> parse_compute_times(std::string_view text, const std::string& name) {
  constexpr double kMsPerS = 1e3;
  std::vector<double> times;
  std::optional<std::size_t> column;  // of a table
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const char* const line = text.data();
    std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (number == 1 && word.find(',') != std::string_view::npos) {
      const auto names = fields_of(word);
      const auto found = std::ranges::find(names, kColumn);
      if (found == names.end()) {
        return invalid(
            fmt::format("{}:1:1: a table without the column {}; name a worker's "
                        "metrics.csv, or a file with a number on each line",
                        name, kColumn));
      }
      column = static_cast<std::size_t>(found - names.begin());
      continue;
    }
    if (column) {
      const auto fields = fields_of(word);
      word = *column < fields.size() ? trimmed(fields[*column]) : std::string_view();
    }
    if (word.empty()) continue;
    double value = 0;
    const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    const double ms = column ? kMsPerS * value : value;
    if (failed != std::errc() || rest != word.data() + word.size() || !(ms > 0 && ms <= kMax_ms)) {
      return invalid(
          fmt::format("{}:{}:{}: must be a number of {} greater than 0 and at most {:g}, is "
                      "\"{}\"",
                      name, number, word.data() - line + 1, column ? "seconds" : "milliseconds",
                      column ? kMax_ms / kMsPerS : kMax_ms, word));
    }
    times.push_back(ms);
  }
  if (!times.empty()) return times;
  return invalid(
      fmt::format("{}:1:1: has no times; give a number of milliseconds on each line", name));
}

Result<std::vector<double>> read_compute_times(const std::filesystem::path& path) {
  TAUT_TRY(const std::string text, read_file(path, kMaxText));
  return parse_compute_times(text, path.string());
}

}  // namespace taut
