// What the checker requires of tables by rows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/ssp/row_buckets.hpp"
#include "lab/contract/checker.hpp"

namespace taut::sim {

/// Records which rows workers request and shards answer, whether or not an oracle follows them.
void Checker::note_rows(const Event& event, const History& history) {
  if (job_.rows.empty() || job_.rows_of(event.table) == nullptr) return;
  const std::pair connection{event.shard.value(), event.peer};
  if (event.kind == Event::Kind::kRequest && event.item == pb::DataItem::READ) {
    reader_of_[connection] = event.worker.value();
    workers_[event.worker.value()].rows.note_request(event.table, event.slice, event.clock,
                                                     history.rows(event));
  }
  const auto reader = reader_of_.find(connection);
  if (event.kind != Event::Kind::kReply || event.item != pb::DataItem::VALUE ||
      reader == reader_of_.end()) {
    return;
  }
  workers_[reader->second].rows.note_answer(event.table, event.slice, event.clock,
                                            history.values(event));
}

std::optional<Broken> Checker::check_rows(const Event& event, const History& history,
                                          const OpenRead& read) {
  const ToyRows& table = *job_.rows_of(event.table);
  const auto rows = history.rows(event);
  const auto values = history.values(event);
  WorkerSide& reader = workers_[event.worker.value()];
  for (std::uint32_t bucket = 0; bucket < table.kept.buckets; ++bucket) {
    std::vector<std::uint64_t> named;
    std::vector<float> got;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (bucket_of(rows[i], table.kept.buckets) != bucket) continue;
      named.push_back(rows[i]);
      const auto row = values.subspan(i * table.width, table.width);
      got.insert(got.end(), row.begin(), row.end());
    }
    if (named.empty()) continue;
    const RowModel* expected = expected_in_bsp({event.table.value(), bucket}, read.clock);
    if (expected != nullptr && expected->read(named) != got) {
      return Broken{"bits", fmt::format("worker {} at clock {} reads other values of table {}'s "
                                        "rows {} than all updates below it add up to",
                                        event.worker.value(), read.clock, event.table.value(),
                                        fmt::join(named, " "))};
    }
    if (reader.rows.was_answered(event.table, SliceId(bucket), event.clock, named, got)) continue;
    return Broken{"rows", fmt::format("worker {} gets rows of table {} bucket {} at clock {} that "
                                      "no shard has sent",
                                      event.worker.value(), event.table.value(), bucket,
                                      event.clock.value())};
  }
  if (!job_.counts() || table.is_filled || job_.policies.backup_workers() > 0) return std::nullopt;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (auto wrong = check_row(event, read, rows[i], values[i * table.width])) return wrong;
  }
  return std::nullopt;
}

/// A function of the updates alone, whatever server has it, if all members exist from the start or
/// from the clock at which they joined, and each clock is one aggregate.
const RowModel* Checker::expected_in_bsp(const SliceKey& key, std::int64_t clock) {
  const bool is_known =
      newest_.aggregates_at(0) &&
      std::ranges::all_of(newest_.aggregated, [](const auto& mode) { return mode.second; }) &&
      std::ranges::all_of(newest_.members, [](const auto& member) {
        return !member.second.fenced && member.second.leave == kNever;
      });
  if (!is_known || newest_.backup_workers > 0 || job_.balance) return nullptr;
  std::vector<RowModel>& models = in_bsp_[key];
  if (models.empty()) {
    models.emplace_back(*job_.rows_of(TableId(key.first)), TableId(key.first), SliceId(key.second),
                        newest_.seed);
  }
  for (auto next = static_cast<std::int64_t>(models.size()) - 1; next < clock; ++next) {
    std::vector<RowModel::Pushed> pushed;
    for (const auto& [worker, member] : newest_.members) {
      if (member.join <= next) pushed.push_back({worker, next});
    }
    if (pushed.empty()) return nullptr;
    models.push_back(models.back());
    const float scale =
        newest_.mean ? static_cast<float>(1.0 / static_cast<double>(pushed.size())) : 1.0F;
    models.back().apply(pushed, scale, next + 1);
  }
  return &models[static_cast<std::size_t>(clock)];
}

/// For a row that starts from 0.
std::optional<Broken> Checker::check_row(const Event& event, const OpenRead& read,
                                         std::uint64_t row, float value) {
  const ToyRows& table = *job_.rows_of(event.table);
  float& seen = workers_[event.worker.value()].rows.seen(event.table, row);
  const SliceKey key{event.table.value(), bucket_of(row, table.kept.buckets)};
  for (std::uint32_t other = 0; other < kCountedMembers; ++other) {
    const auto where = [&] {
      return fmt::format(
          "worker {} at clock {}, table {} row {}: of worker {}'s updates it holds "
          "{}",
          event.worker.value(), read.clock, event.table.value(), row, other, counted(value, other));
    };
    const RowReads& pushed = workers_[other].rows;
    const std::int64_t count = counted(value, other);
    if (const auto most = pushed.pushes(event.table, row, kNever); count > most) {
      return Broken{"once", fmt::format("{}; it has pushed {}", where(), most)};
    }
    // Any of the others may have been dropped with the row.
    if (table.drops()) continue;
    const auto member = newest_.members.find(other);
    if (member == newest_.members.end()) continue;
    const bool own = other == event.worker.value();
    const bool may_lack = member->second.fenced && moved_to_.contains(key);
    const std::int64_t leave = own ? kNever : member->second.leave;
    const std::int64_t before = pushed.pushes(event.table, row, std::min(read.clock, leave));
    const std::int64_t bound = read.slack == kNever ? member->second.join : read.clock - read.slack;
    const std::int64_t least =
        own ? before : pushed.pushes(event.table, row, std::min(bound, leave));
    if (count < least && !may_lack) {
      return Broken{own ? "own write" : "bound",
                    fmt::format("{}, of which it needs {}", where(), least)};
    }
    // Where clocks are applied as one, the reader's own update of this one has not been applied
    // yet.
    const bool is_exact =
        own || (read.clock > 0 && !member->second.fenced && newest_.aggregates_at(read.clock - 1) &&
                newest_.aggregates_at(read.clock));
    if (is_exact && count != before) {
      return Broken{own ? "own write" : "once",
                    fmt::format("{}, of which {} are before its clock", where(), before)};
    }
    if (count < counted(seen, other) && !(may_lack && !logs_updates_)) {
      return Broken{"order", fmt::format("{}, fewer than it has seen before", where())};
    }
  }
  seen = value;
  return std::nullopt;
}

/// A bucket that drops no rows holds everything that finished workers have pushed.
std::optional<Broken> Checker::check_rows_at_end(const SliceOracle& slice,
                                                 const SliceKey& key) const {
  const RowModel& model = *slice.rows();
  return check_all_pushed(key, model.named(), model.read(model.named()));
}

/// As check_rows_at_end(), for a bucket that was taken over.
/// values  of all rows that are ever named, [rows, width], at the end
std::optional<Broken> Checker::check_moved_rows(const SliceKey& key,
                                                std::span<const float> values) const {
  const auto rows = job_.rows_of(TableId(key.first))->rows_of(SliceId(key.second));
  return check_all_pushed(key, rows, values);
}

std::optional<Broken> Checker::check_all_pushed(const SliceKey& key,
                                                const std::vector<std::uint64_t>& rows,
                                                std::span<const float> values) const {
  const ToyRows& table = *job_.rows_of(TableId(key.first));
  const bool counts = job_.counts() && job_.policies.backup_workers() == 0;
  if (!counts || table.is_filled || table.drops()) return std::nullopt;
  for (const auto& [number, worker] : workers_) {
    if (!worker.finished || number >= kCountedMembers) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t count = counted(values[i * table.width], number);
      const std::int64_t due = worker.rows.pushes(TableId(key.first), rows[i], kNever);
      if (count == due) continue;
      return Broken{"once", fmt::format("at the end table {} row {} holds {} updates of worker {}; "
                                        "it pushed {}",
                                        key.first, rows[i], count, number, due)};
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
