#include "worker/member/named_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/did_you_mean.hpp"
#include "proto/config/job_tables.hpp"

namespace taut {
namespace {

/// The first of these tables, for an error message.
std::string words_of_first(const std::vector<TableSpec>& tables) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(tables.size(), kShown); ++i) {
    words.push_back(
        fmt::format("\"{}\" of shape {}", tables[i].name, words_of_shape(tables[i].shape)));
  }
  const std::size_t more = tables.size() - words.size();
  return fmt::format("{}{}", fmt::join(words, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

Result<void> match(const std::vector<TableSpec>& in_text, TableSpec& table) {
  if (in_text.empty()) return ok();
  const auto named = std::ranges::find(in_text, table.name, &TableSpec::name);
  if (named == in_text.end()) {
    std::vector<std::string_view> names;
    for (const TableSpec& one : in_text) names.emplace_back(one.name);
    return make_error(ErrorCode::kMismatch,
                      fmt::format("table \"{}\" of shape {} is not in the job's text{}; it has {}",
                                  table.name, words_of_shape(table.shape),
                                  did_you_mean(table.name, names), words_of_first(in_text)));
  }
  std::string differ = difference_from_text(*named, table);
  if (!differ.empty()) return make_error(ErrorCode::kMismatch, std::move(differ));
  table = *named;
  return ok();
}

Result<std::vector<TableSpec>> in_order(const std::vector<TableSpec>& in_text,
                                        std::vector<TableSpec> tables) {
  std::ranges::sort(tables, {}, &TableSpec::id);
  for (const TableSpec& named : in_text) {
    const std::size_t place = named.id.value();
    if (place < tables.size() && tables[place].id == named.id) continue;
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("table \"{}\" of shape {} is in the job's text, but was not added; add all of "
                    "its tables",
                    named.name, words_of_shape(named.shape)));
  }
  return tables;
}

}  // namespace taut
