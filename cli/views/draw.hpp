#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace taut::cli {

// Text of plain characters, so that it reads the same in a terminal, a log and a mail.

/// "12,345".
[[nodiscard]] std::string grouped(std::int64_t number);
/// "1 shard", "2 shards".
[[nodiscard]] std::string counted(std::int64_t number, const std::string& noun);
/// "0:23", "1:02:45".
[[nodiscard]] std::string clock_time(double seconds);
/// "[####------]": `width` cells, of which `fraction` (cut to 0 to 1) are full.
[[nodiscard]] std::string bar(double fraction, int width);

/// The line in at most `width` columns, ending in "…" if it is cut. Colors take no column.
[[nodiscard]] std::string fit(const std::string& line, std::size_t width);

/// A name in at most `width` columns, cut in the middle, so that names that differ in a number at
/// the end or in a word at the start keep both.
[[nodiscard]] std::string fit_name(const std::string& name, std::size_t width);

using Row = std::vector<std::string>;
/// Rows as lines with aligned columns, two spaces apart; columns are left-aligned, or right-aligned
/// where `right` is true.
[[nodiscard]] std::vector<std::string> aligned(const std::vector<Row>& rows,
                                               const std::vector<bool>& right = {});

/// A bar for each (value, count), the longest `width` cells, with shares and counts. More values
/// than rows are merged into ranges of one length.
/// bins       ascending by value
[[nodiscard]] std::vector<std::string> histogram(
    const std::vector<std::pair<std::int64_t, std::uint64_t>>& bins, int width, int max_rows = 20);

/// A line of `width` cells for the clocks `first` to `last`, with a marker at `at`, and one at
/// `bound` if it is within them.
[[nodiscard]] std::string track(std::int64_t first, std::int64_t last, std::int64_t at,
                                std::int64_t bound, int width);

}  // namespace taut::cli
