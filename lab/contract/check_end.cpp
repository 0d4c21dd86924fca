// What must be true once the run is over.
#include <fmt/format.h>

#include <cmath>

#include "lab/contract/checker.hpp"
#include "lab/toy_compression.hpp"
#include "lab/toy_outer.hpp"
#include "lab/toy_policies.hpp"

namespace taut::sim {

std::optional<Broken> Checker::check_end(const Event& event) {
  if (auto wrong = check_parts()) return wrong;
  if (event.done == Clock(0)) {
    return Broken{"end", "the run did not end, although its network healed"};
  }
  if (event.done == Clock(2)) return std::nullopt;  // ended early, but not by a failure
  if (auto wrong = check_moved_at_end()) return wrong;
  for (const auto& [number, shard] : shards_) {
    for (const auto& [key, slice] : shard.slices) {
      if (!slice->rows()) continue;
      if (auto wrong = check_rows_at_end(*slice, key)) return wrong;
    }
  }
  if (job_.policies.backup_workers() > 0) return check_counted_at_end();
  for (const auto& [number, worker] : workers_) {
    const auto member = newest_.members.find(number);
    if (!worker.finished || member == newest_.members.end()) continue;
    for (const auto& [shard_number, shard] : shards_) {
      for (const auto& [key, slice] : shard.slices) {
        if (slice->rows()) continue;
        const auto count = static_cast<std::int64_t>(-slice->values()[2UL * number]);
        const std::int64_t due = newest_.pushes(member->second.join, job_.clocks);
        if (!job_.counts() || count == due) continue;
        return Broken{"once", fmt::format("at the end table {} slice {} holds {} updates of worker "
                                          "{}; it pushed {}",
                                          key.first, key.second, count, number, due)};
      }
    }
  }
  return std::nullopt;
}

/// What each update of a worker adds to its count in a slice's values; 0 if they do not count.
double Checker::counted_each() const {
  if (job_.counts()) return 1;
  const pb::OuterOptimizer& outer = job_.policies.periodic_averaging().outer();
  const bool is_plain = outer.type() == "SGD" && outer.momentum() == 0;
  const std::uint32_t buffer = buffer_of(job_.policies);
  const bool counts = is_plain && buffer > 0 && !job_.is_seeded && !job_.balance &&
                      !weighs(job_.policies) && keeps_counts(job_.compression, job_.clocks);
  return counts ? static_cast<double>(outer.lr()) / buffer : 0;
}

/// The values of taken-over slices hold everything that workers which ended well have pushed.
std::optional<Broken> Checker::check_moved_at_end() const {
  const double each = counted_each();
  if (each == 0 || job_.policies.backup_workers() > 0) return std::nullopt;
  for (const auto& [key, values] : moved_values_) {
    if (job_.rows_of(TableId(key.first)) != nullptr) {
      if (!job_.counts()) continue;
      if (auto wrong = check_moved_rows(key, values)) return wrong;
      continue;
    }
    for (const auto& [number, worker] : workers_) {
      const auto member = newest_.members.find(number);
      if (!worker.finished || member == newest_.members.end()) continue;
      const std::int64_t count = std::llround(-values[2UL * number] / each);
      const std::int64_t due = newest_.pushes(member->second.join, job_.clocks, key.first);
      if (count == due) continue;
      return Broken{"once", fmt::format("at the end table {} slice {}, which was taken over, holds "
                                        "{} updates of worker {}; it pushed {}",
                                        key.first, key.second, count, number, due)};
    }
  }
  return std::nullopt;
}

std::optional<Broken> Checker::check_counted_at_end() const {
  if (!job_.counts()) return std::nullopt;
  for (const auto& [number, shard] : shards_) {
    for (const auto& [key, slice] : shard.slices) {
      if (slice->rows()) continue;
      const double required = required_until(job_.clocks, key);
      double held = 0;
      for (const auto& [worker, member] : newest_.members) held += -slice->values()[2UL * worker];
      if (held >= required) continue;
      return Broken{"once", fmt::format("at the end table {} slice {} holds {} updates; the job's "
                                        "clocks are made of {} at least",
                                        key.first, key.second, held, required)};
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
