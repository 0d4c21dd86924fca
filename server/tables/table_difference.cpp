#include "server/tables/table_difference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

namespace taut::server {
namespace {

std::string describe(const TableSpec& table) {
  static constexpr const char* kKinds[] = {"trained", "averaged", "frozen"};
  static constexpr const char* kFillers[] = {"constant", "uniform", "gaussian", "bilinear"};
  const std::string sparse =
      table.filler.sparse >= 0 ? fmt::format(" sparse {}", table.filler.sparse) : "";
  const std::string origin =
      table.origin ? fmt::format("; from byte {} of {} with SHA-256 {:.12}", table.origin->offset,
                                 table.origin->file, table.origin->sha256)
                   : "";
  const std::string rows =
      table.rows ? fmt::format("; by rows in {} buckets, max_rows {}, idle_clocks {}",
                               table.rows->buckets, table.rows->max_rows, table.rows->idle_clocks)
                 : "";
  return fmt::format(
      "table {} \"{}\" of {} elements ({}; {}; {} {}, {}{}; lr_mult {}; decay_mult {}{}{})",
      table.id.value(), table.name, table.count(), fmt::join(table.shape, "x"),
      kKinds[static_cast<std::size_t>(table.kind)],
      kFillers[static_cast<std::size_t>(table.filler.kind)], table.filler.a, table.filler.b, sparse,
      table.lr_mult, table.decay_mult, origin, rows);
}

/// How many buckets a table has, which cannot change; 0 if it is not kept by rows.
std::uint32_t buckets_of(const TableSpec& table) {
  return table.rows ? table.rows->buckets : 0;
}

std::string describe_keeping(const TableSpec& table) {
  return table.rows ? fmt::format("by rows in {} buckets", table.rows->buckets) : "whole";
}

}  // namespace

std::string difference(const std::vector<TableSpec>& ours, const std::vector<TableSpec>& theirs) {
  if (ours.size() != theirs.size()) {
    return fmt::format("{} tables were opened, you name {}", ours.size(), theirs.size());
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!(ours[i] == theirs[i])) {
      return fmt::format("opened was {}, you name {}", describe(ours[i]), describe(theirs[i]));
    }
  }
  return {};
}

std::string resume_difference(const std::vector<TableSpec>& saved,
                              const std::vector<TableSpec>& requested) {
  if (saved.size() != requested.size()) {
    return fmt::format("the checkpoint holds {} tables, the job has {}", saved.size(),
                       requested.size());
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const TableSpec& a = saved[i];
    const TableSpec& b = requested[i];
    if (a.name == b.name && a.shape == b.shape && a.kind == b.kind) {
      if (buckets_of(a) == buckets_of(b)) continue;
      return fmt::format("the checkpoint holds table \"{}\" {}, the job keeps it {}", a.name,
                         describe_keeping(a), describe_keeping(b));
    }
    return fmt::format("the checkpoint holds table \"{}\" of {}, the job has \"{}\" of {}", a.name,
                       fmt::join(a.shape, "x"), b.name, fmt::join(b.shape, "x"));
  }
  return {};
}

}  // namespace taut::server
