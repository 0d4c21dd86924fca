#include "worker/data/tables/label_column.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "common/system/memory.hpp"

namespace taut::data {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The first few names, for a message.
std::string shown(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 12;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > kShown ? ", ..." : "");
}

Result<std::size_t> find_column(const std::string& requested, const std::vector<std::string>& names,
                                std::size_t count, const std::string& name) {
  const auto found = std::ranges::find(names, requested);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::size_t number = 0;
  const char* end = requested.data() + requested.size();
  const auto [stop, fault] = std::from_chars(requested.data(), end, number);
  if (fault == std::errc() && stop == end && number >= 1 && number <= count) return number - 1;
  return invalid(fmt::format(
      "{}: has no column \"{}\": name one of {}", name, requested,
      names.empty() ? fmt::format("its {} columns by its number, from 1 on", count)
                    : fmt::format("{}, or its number from 1 to {}", shown(names), count)));
}

}  // namespace

std::optional<float> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::result_out_of_range && end == text.data() + text.size()) {
    // Below the smallest double: 0. Above the largest one: refused.
    if (text.find("e-") == std::string_view::npos && text.find("E-") == std::string_view::npos) {
      return std::nullopt;
    }
    return 0.0F;
  }
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const auto number = static_cast<float>(value);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Result<ColumnRoles> column_roles(const TableOptions& options, const std::vector<std::string>& names,
                                 std::size_t count, const std::string& name) {
  ColumnRoles roles;
  roles.is_feature.assign(count, true);
  if (!options.label.empty()) {
    TAUT_TRY(roles.label, find_column(options.label, names, count, name));
    roles.is_feature[*roles.label] = false;
  }
  for (const std::string& column : options.drop) {
    TAUT_TRY(const std::size_t place, find_column(column, names, count, name));
    if (place == roles.label) {
      return invalid(
          fmt::format("{}: column \"{}\" is the label and cannot be left out", name, column));
    }
    roles.is_feature[place] = false;
  }
  roles.features = static_cast<std::uint64_t>(std::ranges::count(roles.is_feature, true));
  if (roles.features > 0) return roles;
  return invalid(fmt::format("{}: has {} columns, and no feature is left among them", name, count));
}

void set_labels(const std::vector<std::string>& labels, bool as_classes, NumberTable& table) {
  std::vector<std::optional<float>> numbers;
  numbers.reserve(labels.size());
  for (const std::string& label : labels) numbers.push_back(parse_number(label));
  const bool all_numbers =
      std::ranges::all_of(numbers, [](const auto& number) { return number.has_value(); });
  if (all_numbers && !as_classes) {
    for (const auto& number : numbers) table.labels.push_back(*number);
    return;
  }
  // Labels that are all numbers are sorted numerically, any others by their bytes.
  using Key = std::pair<float, std::string>;
  std::map<Key, float> classes;
  std::vector<Key> keys;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    keys.emplace_back(all_numbers ? *numbers[row] : 0.0F,
                      all_numbers ? std::string() : std::string(trimmed(labels[row])));
    classes.emplace(keys.back(), 0.0F);
  }
  for (auto& [key, number] : classes) {
    number = static_cast<float>(table.classes.size());
    table.classes.push_back(all_numbers ? fmt::format("{:g}", key.first) : key.second);
  }
  for (const Key& key : keys) table.labels.push_back(classes.at(key));
}

Result<void> check_table_size(std::uint64_t rows, std::uint64_t columns, const std::string& name) {
  const std::uint64_t limit = available_memory().value() / 2 / sizeof(float);
  if (columns == 0 || rows <= limit / columns) return ok();
  return invalid(
      fmt::format("{}: {} rows of {} features; half of the available memory holds {} "
                  "numbers",
                  name, rows, columns, limit));
}

}  // namespace taut::data
