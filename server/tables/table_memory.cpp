#include "server/tables/table_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/tables/row_allowance.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {
namespace {

std::uint64_t bytes_of(std::uint64_t elements, std::uint64_t copies) {
  const std::uint64_t each = sizeof(float) * copies;
  return each > 0 && elements > kMaxBytes / each ? kMaxBytes : elements * each;
}

/// The bytes of a table's encoded values, if members get these; otherwise 0.
std::uint64_t encoded_bytes_of(const TableSpec& table, std::uint64_t elements, const JobView& job) {
  const math::Encoding encoding = job.compression.of_pull(table);
  // Beyond 2^40 elements the values alone are refused.
  const bool is_encoded = encoding != math::Encoding() && elements <= 1ULL << 40U;
  return is_encoded ? math::encoded_bytes(encoding, elements) : 0;
}

/// elements  in its slices; for a table by rows, only `slices` counts
TableNeed need_of(const TableSpec& table, std::uint64_t elements, std::uint64_t slices,
                  const JobView& job, HostRole role) {
  if (table.rows) {
    const auto states = static_cast<std::size_t>(job.rule.state_count());
    const bool is_logged = role == HostRole::kBackup && job.logs_updates;
    return {table.name, row_table_bytes(table, slices, states, job.max_members(), is_logged), 0};
  }
  std::uint64_t copies = 1;
  std::uint64_t compensation = 0;
  // Updates that wait in a buffer.
  if (table.kind != TableKind::kFrozen) copies += job.buffer();
  if (table.kind == TableKind::kTrained) {
    copies += static_cast<std::uint64_t>(job.rule.state_count());
    const Policies::Keeps keeps = job.policies.keeps();
    compensation = keeps.states + (keeps.values ? job.membership.members().size() : 0);
  }
  const std::uint64_t bytes = bytes_of(elements, copies + compensation) +
                              encoded_bytes_of(table, elements, job) + slices * kSliceBytes;
  return {table.name, std::min(bytes, kMaxBytes), bytes_of(elements, compensation)};
}

}  // namespace

std::uint64_t row_table_bytes(const TableSpec& table, std::uint64_t buckets, std::size_t states,
                              std::uint64_t members, bool is_logged) {
  // A backup that takes the shard over then has no log.
  std::uint64_t waiting = RowAllowance::max_bytes(table, buckets, members);
  if (is_logged) {
    waiting = std::max(waiting, RowAllowance::max_logged_bytes(table, buckets, members));
  }
  const std::uint64_t bytes =
      RowStore::max_bytes(table, buckets, states) + waiting + buckets * kSliceBytes;
  return std::min(bytes, kMaxBytes);
}

std::vector<TableNeed> even_needs(std::span<const TableSpec> tables, const JobView& job,
                                  HostRole role) {
  std::vector<TableNeed> needs;
  for (const TableSpec& table : tables) {
    if (table.rows) {
      // All that members send in a clock may belong to one shard's buckets.
      const std::uint64_t part = (table.rows->buckets + job.shards.size() - 1) / job.shards.size();
      needs.push_back(need_of(table, 0, part, job, role));
      continue;
    }
    const std::uint64_t slices = table.count() / SliceLayout::kSliceElements + 1;
    TableNeed& need = needs.emplace_back(need_of(table, table.count(), slices, job, role));
    need.bytes /= job.shards.size();
    need.compensation /= job.shards.size();
  }
  return needs;
}

std::vector<TableNeed> needs_at(ShardId shard, const SliceLayout& layout,
                                std::span<const TableSpec> tables, const JobView& job,
                                HostRole role) {
  std::vector<TableNeed> needs;
  for (const TableSpec& table : tables) {
    std::uint64_t elements = 0;
    std::uint64_t slices = 0;
    for (const Slice& slice : layout.slices_of(table.id)) {
      if (slice.shard != shard) continue;
      elements += slice.count;
      ++slices;
    }
    needs.push_back(need_of(table, elements, slices, job, role));
  }
  return needs;
}

TableMemory::Share& TableMemory::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  if (from_) *from_ -= bytes_;
  from_ = std::exchange(other.from_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

TableMemory::Share::~Share() {
  if (from_) *from_ -= bytes_;
}

/// The bytes of all tables together.
Result<std::uint64_t> TableMemory::sum(std::span<const TableNeed> tables,
                                       std::uint64_t taken) const {
  std::uint64_t left = limit_ - std::min(limit_, taken);
  std::uint64_t all = 0;
  for (const TableNeed& table : tables) {
    if (table.bytes > left) {
      return invalid(fmt::format(
          "table \"{}\" needs {} bytes here, and {} of server {{ memory_limit }} {} are "
          "left: add servers, raise the limit, or train a smaller net",
          table.name, table.bytes, left, limit_));
    }
    left -= table.bytes;
    all += table.bytes;
  }
  return all;
}

Result<void> TableMemory::check(std::span<const TableNeed> tables) const {
  TAUT_TRY(sum(tables, taken_));
  return ok();
}

Result<TableMemory::Share> TableMemory::take(std::span<const TableNeed> tables, Share former) {
  std::uint64_t taken = taken_;
  while (true) {
    const std::uint64_t others = taken - former.bytes_;
    TAUT_TRY(const std::uint64_t bytes, sum(tables, others));
    // If another shard has taken some meanwhile, it is checked again.
    if (taken_.compare_exchange_weak(taken, others + bytes)) {
      former.from_ = nullptr;
      return Share({shared_from_this(), &taken_}, bytes);
    }
  }
}

std::optional<TableMemory::Share> TableMemory::take_spare(Bytes bytes) {
  std::uint64_t spare = spare_;
  while (true) {
    const std::uint64_t left = limit_ - std::min(limit_, taken_.load());
    if (bytes.value() > left || spare > left - bytes.value()) return std::nullopt;
    if (spare_.compare_exchange_weak(spare, spare + bytes.value())) {
      Share share({shared_from_this(), &spare_}, bytes.value());
      // Tables that were taken since taken_ was read did not see this spare memory.
      if (is_short()) return std::nullopt;
      return share;
    }
  }
}

bool TableMemory::is_short() const {
  return spare_ > limit_ - std::min(limit_, taken_.load());
}

}  // namespace taut::server
