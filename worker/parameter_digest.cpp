#include "worker/parameter_digest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/files/sha256.hpp"
#include "common/ssp/row_buckets.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::worker {
namespace {

/// The rows of a table by rows that a digest reads: all, or as many as fit in 4 MiB, evenly spread
/// over the table.
std::vector<std::uint64_t> digested_rows(const TableSpec& table) {
  constexpr std::uint64_t kMaxValues = 1UL << 20U;
  if (!table.rows) return {};
  const auto all = static_cast<std::uint64_t>(table.shape[0]);
  const std::uint64_t most = std::min<std::uint64_t>(kMaxValues / table.width(), kMaxRowsOfItem);
  const std::uint64_t count = std::min(all, std::max<std::uint64_t>(most, 1));
  std::vector<std::uint64_t> rows(count);
  for (std::uint64_t i = 0; i < count; ++i) rows[i] = i * (all / count) + i * (all % count) / count;
  return rows;
}

}  // namespace

Result<std::string> digest_parameters(ParameterCache& cache, const model::Graph& graph, Clock until,
                                      Duration wait, const std::atomic<bool>& stop,
                                      const DivergenceRule& divergence, ProgressBoard& board,
                                      Pace& pace) {
  Sha256 digest;
  std::vector<float> values;
  const std::vector<TableSpec> tables = model::served_tables(graph);
  for (const TableSpec& table : tables) {
    const std::vector<std::uint64_t> rows = digested_rows(table);
    values.resize(table.rows ? rows.size() * table.width() : table.count());
    Clock newest(-1);
    TimePoint deadline;
    while (true) {
      TAUT_TRY(const Clock version, table.rows ? cache.snapshot_rows(table.id, rows, values)
                                               : cache.snapshot(table.id, values));
      if (version >= until || table.kind == TableKind::kFrozen) break;
      if (version > newest) deadline = pace.now() + wait;
      newest = std::max(newest, version);
      if (stop) return make_error(ErrorCode::kClosed, "stopped while other workers were training");
      if (pace.now() > deadline) {
        return make_error(ErrorCode::kTimeout,
                          fmt::format("table \"{}\" has been at clock {} of {} for {:.0f} s: "
                                      "another worker has not finished",
                                      table.name, version.value(), until.value(), seconds(wait)));
      }
      pace.sleep(std::chrono::milliseconds(10));
    }
    TAUT_TRY(divergence.check(table.name, values, until, board));
    digest.update(std::as_bytes(std::span(values)));
  }
  return digest.finish();
}

}  // namespace taut::worker
