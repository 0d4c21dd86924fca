#include "lab/schedule/traces/trace_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

namespace taut::schedule {
namespace {

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

/// Column of a line's field, from 1.
std::size_t column_of(const std::vector<std::string_view>& fields, std::size_t field) {
  return static_cast<std::size_t>(fields[field].data() - fields.front().data()) + 1;
}

template <class Value>
bool parse_all(std::string_view text, Value& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<TraceTable> TraceTable::parse(std::string_view text, const std::string& name,
                                     std::string_view of_line) {
  TraceTable table;
  table.name_ = name;
  std::size_t number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string_view> fields = fields_of(line);
    if (table.columns_.empty()) {
      for (std::size_t i = 0; i < fields.size(); ++i) table.columns_.emplace(fields[i], i);
    } else if (fields.size() != table.columns_.size()) {
      // At the first excess field, or where one is missing.
      const bool is_long = fields.size() > table.columns_.size();
      const std::size_t column =
          is_long ? column_of(fields, table.columns_.size()) : line.size() + 1;
      return invalid(
          fmt::format("{}:{}:{}: a line must have {} fields as the first one has, has {}", name,
                      number, column, table.columns_.size(), fields.size()));
    } else {
      table.rows_.push_back({number, std::move(fields)});
    }
  }
  if (table.rows_.empty()) {
    return invalid(fmt::format("{}: must have at least one {}", name, of_line));
  }
  return table;
}

bool TraceTable::has(std::initializer_list<std::string_view> columns) const {
  return std::ranges::all_of(columns, [this](auto one) { return columns_.contains(one); });
}

std::string_view TraceTable::text(std::size_t row, std::string_view column) const {
  return rows_[row].fields[columns_.at(column)];
}

Error TraceTable::wrong(std::size_t row, std::string_view column,
                        const std::string& required) const {
  constexpr std::size_t kShown = 40;
  const Row& one = rows_[row];
  return invalid(fmt::format("{}:{}:{}: {} must be {}, is \"{}\"", name_, one.line,
                             column_of(one.fields, columns_.at(column)), column, required,
                             text(row, column).substr(0, kShown)));
}

Result<double> TraceTable::number(std::size_t row, std::string_view column, double min, bool above,
                                  double max) const {
  double value = 0;
  const bool is_fine = parse_all(text(row, column), value) && std::isfinite(value) &&
                       (above ? value > min : value >= min);
  if (is_fine && value <= max) return value;
  if (is_fine) return wrong(row, column, fmt::format("a number of at most {:g}", max));
  return wrong(row, column,
               fmt::format("a number {} {:g}", above ? "greater than" : "of at least", min));
}

Result<std::uint32_t> TraceTable::whole(std::size_t row, std::string_view column, std::uint32_t min,
                                        std::uint32_t max) const {
  std::uint32_t value = 0;
  if (parse_all(text(row, column), value) && value >= min && value <= max) return value;
  return wrong(row, column, fmt::format("a whole number from {} to {}", min, max));
}

Result<double> TraceTable::time(std::size_t row, std::string_view column) const {
  const std::string_view all = text(row, column);
  bool is_fine = all.size() == 19 && all[4] == '-' && all[7] == '-' && all[10] == ' ' &&
                 all[13] == ':' && all[16] == ':';
  const auto part = [&](std::size_t from, std::size_t length) {
    unsigned value = 0;
    is_fine = is_fine && parse_all(all.substr(from, length), value);
    return value;
  };
  using namespace std::chrono;
  const year_month_day date(year(static_cast<int>(part(0, 4))), month(part(5, 2)), day(part(8, 2)));
  const unsigned hour = part(11, 2);
  const unsigned minute = part(14, 2);
  const unsigned second = part(17, 2);
  if (!is_fine || !date.ok() || hour > 23 || minute > 59 || second > 60) {
    return wrong(row, column, "a time as 2017-10-03 14:02:11");
  }
  const double days = static_cast<double>(sys_days(date).time_since_epoch().count());
  const double value = 86400 * days + 3600.0 * hour + 60.0 * minute + second;
  if (value >= 0 && value <= kMaxSeconds) return value;
  return wrong(row, column, "a time from 1970 to 2096");
}

}  // namespace taut::schedule
