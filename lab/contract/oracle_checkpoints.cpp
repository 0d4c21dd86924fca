// What a checkpoint must hold of a slice, and when it must be captured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/contract/slice_oracle.hpp"

namespace taut::sim {

/// Section 3 of the design: a checkpoint at clock K holds every update below K; in BSP nothing
/// else.
void SliceOracle::take_order(const Contract& contract) {
  if (aside_.number != contract.checkpoint) {
    aside_ = {};
    aside_.number = contract.checkpoint;
    aside_.due = contract.checkpoint > 0;
  }
  const std::int64_t clock = contract.checkpoint_clock;
  if (!aside_.due || contract.next_push(version_, table_.value()) < clock) return;
  apply_ready(contract);
  aside_.due = false;
  aside_.exact = contract.aggregates_at(clock);
  if (aside_.exact && version_ > clock) {
    aside_.missed = true;
    return;
  }
  aside_.version = version_;
  aside_.values = values_;
  aside_.rows = rows_;
  aside_.done = applied_;
  for (const auto& [worker, member] : contract.members) {
    aside_.joined[worker] = member.join;
    aside_.least[worker] = contract.pushes(member.join, std::min(clock, member.leave));
  }
}

std::optional<Broken> SliceOracle::captured(const Event& event, std::span<const float> values,
                                            std::span<const std::uint64_t> rows,
                                            const Contract& contract) const {
  if (event.view != aside_.number || aside_.due || aside_.missed) {
    return broken("checkpoint",
                  fmt::format("is captured for order {}, which is {}", event.view,
                              event.view != aside_.number ? "not the newest" : "not due here"));
  }
  if (event.version.value() != aside_.version) {
    return broken("checkpoint", fmt::format("is captured at V = {} and not when V reached {}",
                                            event.version.value(), aside_.version));
  }
  if (rows_) return captured_rows(event, values, rows);
  const auto own = values.first(kSliceElements);
  for (const auto& [worker, done] : aside_.done) {
    const auto reported = static_cast<std::int64_t>(values[kSliceElements + worker]);
    const auto count = static_cast<std::int64_t>(-own[2UL * worker]);
    if (reported != done) {
      return broken("checkpoint",
                    fmt::format("reports done({}) = {}; {} is applied", worker, reported, done));
    }
    // The values do not show the number of updates that were omitted or weighted.
    const bool counts = contract.counts() && contract.backup_workers == 0;
    if (!counts || !aside_.joined.contains(worker)) continue;
    // From the values alone: its own first updates, as many as `done`, and at least a quorum.
    const std::int64_t join = aside_.joined.at(worker);
    const std::int64_t pushed = contract.pushes(join, reported);
    const double names = contract.names(join, pushed);
    if (count != pushed || static_cast<double>(-own[2UL * worker + 1]) != names) {
      return broken("checkpoint", fmt::format("holds {} updates of worker {} and reports done = {}",
                                              count, worker, reported));
    }
    const std::int64_t least = aside_.least.at(worker);
    const auto member = contract.members.find(worker);
    const bool stays =
        member != contract.members.end() && member->second.leave > event.clock.value();
    if (count < least || (aside_.exact && stays && count != least)) {
      return broken("checkpoint", fmt::format("of clock {} holds {} updates of worker {}, not {}",
                                              event.clock.value(), count, worker, least));
    }
  }
  if (!same_bits(own, aside_.values)) {
    return broken("bits",
                  fmt::format("the checkpoint at clock {} holds other bits than the updates "
                              "before it add up to",
                              event.clock.value()));
  }
  return std::nullopt;
}

/// What a checkpoint must hold of a bucket: the rows that are kept, and no others. `values` are
/// theirs, followed by done(w) of each member.
std::optional<Broken> SliceOracle::captured_rows(const Event& event, std::span<const float> values,
                                                 std::span<const std::uint64_t> rows) const {
  const auto reported = values.last(kMembers);
  for (const auto& [worker, done] : aside_.done) {
    if (static_cast<std::int64_t>(reported[worker]) == done) continue;
    return broken("checkpoint", fmt::format("reports done({}) = {}; {} is applied", worker,
                                            reported[worker], done));
  }
  if (!std::ranges::equal(rows, aside_.rows->kept())) {
    return broken("checkpoint",
                  fmt::format("of clock {} holds the rows {}, not {}", event.clock.value(),
                              fmt::join(rows, " "), fmt::join(aside_.rows->kept(), " ")));
  }
  if (same_bits(values.first(values.size() - kMembers), aside_.rows->read(rows))) {
    return std::nullopt;
  }
  return broken("bits", fmt::format("the checkpoint at clock {} holds other bits than the updates "
                                    "before it add up to",
                                    event.clock.value()));
}

}  // namespace taut::sim
