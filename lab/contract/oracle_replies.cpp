// What a shard must send for each request, and that it has sent it by the end of the step.
#include <fmt/format.h>

#include <algorithm>

#include "lab/contract/slice_oracle.hpp"

namespace taut::sim {

std::optional<Broken> SliceOracle::reply(const Event& item, std::span<const float> values,
                                         const Contract& contract) {
  const std::int64_t clock = item.clock.value();
  switch (item.item) {
    case pb::DataItem::VALUE:
      for (Unacknowledged& update : unacknowledged_) {
        if (update.peer == item.peer && update.clock < item.done.value()) update.paid = true;
      }
      return check_value(item, values, contract);
    case pb::DataItem::SNAPSHOT_VALUE: {
      const auto request = std::ranges::find(snapshots_, item.peer, &Snapshot::peer);
      if (request == snapshots_.end()) return broken("answer", "a snapshot that was not requested");
      const auto expected = rows_ ? rows_->read(request->rows) : values_;
      snapshots_.erase(request);
      if (!same_bits(values, expected)) return broken("bits", "a snapshot of other values");
      return std::nullopt;
    }
    case pb::DataItem::FOLLOW_VALUE:
    case pb::DataItem::FOLLOW_PASSED:
      return check_follow(item, values, contract);
    case pb::DataItem::ACK: {
      bool paid = false;
      for (Unacknowledged& update : unacknowledged_) {
        if (update.peer != item.peer || update.clock >= item.done.value()) continue;
        update.paid = paid = true;
      }
      if (!paid) {
        return broken("once", fmt::format("an update of clock {} is acknowledged that the shard "
                                          "should not have accepted",
                                          clock));
      }
      return std::nullopt;
    }
    case pb::DataItem::PARKED: {
      const auto is_this = [&](const auto& entry) {
        return entry.second.peer == item.peer && entry.second.clock == clock;
      };
      const auto follow = follows_.find(item.peer);
      const bool is_follow = follow != follows_.end() && follow->second == clock;
      if (is_follow || std::ranges::any_of(waiting_, is_this) ||
          std::ranges::any_of(overtaken_, is_this)) {
        return std::nullopt;
      }
      return broken("answer",
                    fmt::format("a read at clock {} that is not too early is parked", clock));
    }
    case pb::DataItem::REFUSED: {
      for (Refusal& refusal : refusals_) {
        if (refusal.paid || refusal.peer != item.peer || refusal.clock != clock) continue;
        if (std::ranges::find(refusal.kinds, item.refusal) == refusal.kinds.end()) continue;
        refusal.paid = true;
        return std::nullopt;
      }
      return broken("refusal", fmt::format("a request at clock {} is refused as {}", clock,
                                           pb::DataItem::Refusal_Name(item.refusal)));
    }
    default:
      return broken("answer", "a shard sends what only workers may send");
  }
}

/// Requests of followers for a version before which all updates have arrived.
void SliceOracle::note_follows(const Contract& contract) {
  const std::int64_t until = contract.next_push(version_, table_.value());
  for (auto follow = follows_.begin(); follow != follows_.end();) {
    if (follow->second > until) {
      ++follow;
      continue;
    }
    followed_.push_back({follow->first, follow->second});
    follow = follows_.erase(follow);
  }
}

/// A follower gets the slice at the version that it named; if that version is past, it gets
/// nothing.
std::optional<Broken> SliceOracle::check_follow(const Event& item, std::span<const float> values,
                                                const Contract& contract) {
  const auto request = std::ranges::find_if(followed_, [&](const Followed& one) {
    return !one.answered && one.peer == item.peer && one.clock == item.clock.value();
  });
  if (request == followed_.end()) {
    return broken("follow", fmt::format("version {} is sent to a follower at V = {}, which did not "
                                        "wait for it",
                                        item.clock.value(), version_));
  }
  request->answered = true;
  const std::int64_t version = item.version.value();
  const bool is_passed = item.item == pb::DataItem::FOLLOW_PASSED;
  if (version < earliest_version_ || version > version_ ||
      is_passed != (version > request->clock)) {
    return broken("follow", fmt::format("version {} is answered with V = {}; it is {}",
                                        request->clock, version, version_));
  }
  if (is_passed) return std::nullopt;
  if (item.done.value() != contract.next_push(version, table_.value())) {
    return broken("follow", fmt::format("values of V = {} are said to be of versions up to {}",
                                        version, item.done.value()));
  }
  const bool known =
      same_bits(values, values_) || std::ranges::any_of(earlier_, [&](const Earlier& before) {
        return same_bits(values, before.values);
      });
  return known ? std::nullopt : std::optional(broken("bits", "a follower gets other values"));
}

std::optional<Broken> SliceOracle::end_step() {
  for (const auto& [worker, read] : answerable_) {
    if (read.answered) continue;
    // A repeated request in one message may be answered once.
    const bool once =
        std::ranges::any_of(answerable_, [&, w = worker, &one = read](const auto& entry) {
          return entry.second.answered && entry.first == w && entry.second.clock == one.clock &&
                 entry.second.peer == one.peer;
        });
    if (once) continue;
    return broken("release",
                  fmt::format("worker {}'s read at clock {} is true at V = {}, done = {}, "
                              "slack {}, and is not answered",
                              worker, read.clock, version_, done_.at(worker),
                              read.slack == kNever ? -1 : read.slack));
  }
  for (const Unacknowledged& update : unacknowledged_) {
    if (!update.paid) {
      return broken("answer",
                    fmt::format("an update of clock {} is not acknowledged", update.clock));
    }
  }
  for (const Refusal& refusal : refusals_) {
    if (refusal.paid) continue;
    const bool fenced = refusal.kinds.front() == pb::DataItem::STALE_INCARNATION;
    return broken(fenced ? "fenced" : "answer",
                  fmt::format("a request at clock {} is not refused as {}", refusal.clock,
                              pb::DataItem::Refusal_Name(refusal.kinds.front())));
  }
  if (!snapshots_.empty()) return broken("release", "a snapshot is not answered");
  for (const Followed& one : followed_) {
    if (one.answered) continue;
    return broken("release",
                  fmt::format("a follower waits for version {}, which is there at V = {}",
                              one.clock, version_));
  }
  followed_.clear();
  answerable_.clear();
  overtaken_.clear();
  unacknowledged_.clear();
  refusals_.clear();
  earlier_.clear();
  earliest_version_ = version_;
  for (const auto& [peer, said] : said_) last_version_ = std::max(last_version_, said);
  said_.clear();
  return std::nullopt;
}

}  // namespace taut::sim
