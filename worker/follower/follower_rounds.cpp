// How a follower chooses a version and gathers its slices.
#include <algorithm>
#include <limits>
#include <utility>

#include "worker/follower/follower_protocol.hpp"

namespace taut {
namespace {

// A message is received as a whole: one slice is passed on while the next is on its way.
constexpr std::size_t kMessageBytes = 1UL << 20U;
// A follower passes on a part of a slice at a time: the next follower starts to pass it on that
// much earlier.
constexpr std::uint64_t kPartsOfSlice = 4;
constexpr std::int64_t kMaxLead = 64;
// After this many models in a row that were gathered at the first attempt, a lower lead is tried.
constexpr std::int64_t kInTime = 64;
// For a version that is further ahead only rounds are made, and no requests parked.
constexpr std::int64_t kParkedAhead = 4096;

}  // namespace

void FollowerProtocol::wish(const Wish& wish, TimePoint now) {
  wish_ = wish;
  is_fresh_ = false;
  fresh_from_ = now;
  wished_newest_.reset();
  if (phase_ == Phase::kProbing) phase_ = Phase::kIdle;
  if (phase_ == Phase::kIdle) next_round_ = now;
}

Clock FollowerProtocol::least(const Wish& wish) const {
  return std::max(wish.at_least, first_version_);
}

bool FollowerProtocol::is_fulfilled(const Wish& wish) const {
  if (!model_ || model_->version < least(wish)) return false;
  if (!wish.max_behind) return wished_newest_ && model_->version >= *wished_newest_;
  return is_fresh_ && newest_ - model_->version <= *wish.max_behind;
}

std::shared_ptr<const Model> FollowerProtocol::take() {
  if (!wish_ || failure_) return nullptr;
  const bool is_last =
      has_last_ && model_ && model_->version > given_ && model_->version >= wish_->at_least;
  const bool is_bound = !identity_.bounded || joined_ || lingers_;
  if (!is_last && !(is_bound && is_fulfilled(*wish_))) return nullptr;
  wish_.reset();
  given_ = std::max(given_, model_->version);
  return model_;
}

/// What to gather next: of this follower's wish and those of followers that read from it, the one
/// that may be available first.
std::optional<Wish> FollowerProtocol::next_wish() const {
  std::optional<Wish> next;
  const auto consider = [&](const Wish& wish) {
    if (!next || wish.at_least < next->at_least) next = wish;
  };
  if (wish_ && !is_fulfilled(*wish_)) consider(*wish_);
  if (const auto waiting = relay_.wanted(); waiting && *waiting > version()) consider({*waiting});
  const bool must_join = identity_.bounded && !joined_ && !model_;
  if (must_join || (lingers_ && !has_last_)) consider({Clock(0)});
  return next;
}

void FollowerProtocol::advance(TimePoint now) {
  const bool all_greeted = !links_.empty() && std::ranges::all_of(links_, [](const auto& entry) {
    return entry.second.greeted;
  });
  if (!all_greeted) return;
  if (phase_ == Phase::kFetching) request(now);
  if (phase_ != Phase::kFetching && !next_wish()) {
    phase_ = Phase::kIdle;
    return;
  }
  const bool is_open = std::ranges::any_of(
      links_, [](const auto& entry) { return entry.second.requested && !entry.second.said; });
  if (is_open && phase_ != Phase::kIdle) {
    // A round's answers are queued behind those to earlier requests.
    for (auto& [shard, link] : links_) {
      if (link.said || (link.requested && now - *link.requested < timings_.resend)) continue;
      ask(shard, link, now);
    }
  } else if (now >= next_round_) {
    probe(now);
  }
  if (phase_ == Phase::kFetching && source_ != FollowerId()) ask_source(now);
}

void FollowerProtocol::note_round(Link& link, const pb::Description& description) const {
  if (description.round() != round_) return;
  link.cleared = round_begun_;
  link.reached = description.waits() ? Clock(-1) : Clock(description.lowest());
}

/// Its answer shows that the source is alive, and which of its earlier answers were lost.
void FollowerProtocol::ask_source(TimePoint now) {
  if (source_link_.requested && now - *source_link_.requested < timings_.resend / 2) return;
  source_link_.requested = now;
  DataMessage message = envelope();
  pb::Describe describe;
  describe.set_round(round_);
  message.body = describe;
  outgoing_.push_back({To::kSource, {}, {}, std::move(message)});
}

void FollowerProtocol::ask(ShardId shard, Link& link, TimePoint now) {
  link.requested = now;
  DataMessage message = envelope();
  pb::Describe describe;
  describe.set_tables(!tables_);
  describe.set_round(round_);
  message.body = describe;
  send(shard, std::move(message));
}

void FollowerProtocol::probe(TimePoint now) {
  ++round_;
  round_begun_ = now;
  next_round_ = now + 2 * timings_.probe;
  if (phase_ == Phase::kIdle) phase_ = Phase::kProbing;
  for (auto& [shard, link] : links_) {
    link.said.reset();
    ask(shard, link, now);
  }
}

/// Evaluates the shards' answers of a round, once all have arrived.
void FollowerProtocol::judge_round(TimePoint now) {
  if (phase_ == Phase::kIdle || !tables_) return;
  Clock highest;
  Clock lowest = Clock::never();
  for (const auto& [shard, link] : links_) {
    if (!link.said) return;
    if (link.said->waits()) {
      if (phase_ == Phase::kProbing) phase_ = Phase::kIdle;
      next_round_ = now + timings_.probe;
      for (auto& [other, one] : links_) one.requested.reset();
      return;
    }
    highest = std::max(highest, Clock(link.said->highest()));
    lowest = std::min(lowest, Clock(link.said->lowest()));
  }
  for (auto& [shard, link] : links_) {
    link.said.reset();
    link.requested.reset();
  }
  next_round_ = now + 2 * timings_.probe;
  if (attempt_ && attempt_->is_whole()) {
    // A host that was declared lost may still answer; others have reported a newer branch.
    if (newest_branch_ > branch()) {
      is_urgent_ = true;
      return;
    }
    finish();
  }
  if (round_begun_ >= fresh_from_) {
    is_fresh_ = true;
    if (!wished_newest_) wished_newest_ = highest;
  }
  const bool is_one = highest <= lowest;  // every slice is of this version
  if (lingers_ && (!is_one || version() >= highest || highest < first_version_)) {
    // Nothing changes any more: slices that are not of one version now never will be.
    has_last_ = true;
    phase_ = Phase::kIdle;
    attempt_.reset();
    return;
  }
  if (phase_ == Phase::kIdle) return;
  if (phase_ == Phase::kProbing) {
    phase_ = Phase::kIdle;
    choose(now);
    return;
  }
  if (is_stalled(lowest, now)) {
    leave_source(now);
    return;
  }
  // The attempt is ahead of versions that do not advance, as training waits for something; or the
  // source is at a version that was lost.
  const auto wish = next_wish();
  const bool is_above = is_one && attempt_->target() > highest && wish && highest >= least(*wish);
  if (is_above && !is_drawn_) {
    begin(highest, now);
  } else if (source_is_at_lost_version(is_above, now)) {
    leave_source(now);
  }
}

/// Whether the source withholds what the servers have.
/// lowest  the version that all of the servers' slices have
bool FollowerProtocol::is_stalled(Clock lowest, TimePoint now) {
  if (source_ == FollowerId() || lowest < attempt_->target()) return false;
  if (!owed_since_) owed_since_ = now;
  return now - *owed_since_ > timings_.source_stall;
}

/// Whether the source has moved the attempt to a version that was lost when a shard was taken over,
/// of which the source may not have heard.
/// is_above  all slices are of one version that would do, and the attempt is at a later one
bool FollowerProtocol::source_is_at_lost_version(bool is_above, TimePoint now) {
  // The servers had what the source has sent, and unless it was lost report it in later rounds.
  if (!is_above || round_begun_ <= begun_) {
    misled_since_.reset();
    return false;
  }
  // The workers that produced it may push it again, once the shard's new host serves them.
  if (!misled_since_) misled_since_ = now;
  return now - *misled_since_ > timings_.source_silence;
}

void FollowerProtocol::choose(TimePoint now) {
  const auto wish = next_wish();
  if (!wish) return;
  const Clock need = least(*wish);
  if (need > newest_) {
    if (need - newest_ <= kParkedAhead) begin(need, now);
    return;
  }
  if (source_ == FollowerId()) {
    begin(newest_ + lead_, now);
  } else {
    // What the source has will do if it is within the bound.
    begin(std::max({need, newest_ - wish->max_behind.value_or(0), version().next()}), now);
  }
}

void FollowerProtocol::begin(Clock target, TimePoint now) {
  phase_ = Phase::kFetching;
  next_round_ = now + 2 * timings_.probe;
  begun_ = now;
  resends_ = 0;
  owed_since_.reset();
  misled_since_.reset();
  is_drawn_ = false;
  attempt_.emplace(target, tables_, layout_, pool_);
  request(now);
}

/// Whether a slice must be requested, for the first time or again: its answer was lost, as those to
/// later requests have arrived, or the other side was silent for long.
bool FollowerProtocol::is_due(const ModelAttempt::Slice& slice, const Link& link,
                              TimePoint now) const {
  if (!slice.sent) return true;
  const bool is_answered = link.cleared && *slice.sent < *link.cleared;
  if (is_answered && (!slice.parked || link.reached >= attempt_->target())) return true;
  // While anything arrives, what is missing may be queued behind it, for long if many share a slow
  // link: another copy would only lengthen the queue.
  const Duration silence = now - std::max(*slice.sent, link.last_heard.value_or(*slice.sent));
  const Duration patience = timings_.resend * (2 << std::min(resends_, 4));
  return silence >= (slice.parked ? 4 * patience : patience);
}

/// Requests what is missing.
void FollowerProtocol::request(TimePoint now) {
  const bool has_source = source_ != FollowerId();
  bool is_again = false;
  struct Batch {
    DataItems items;
    std::size_t bytes = 0;
  };
  std::map<ShardId, Batch> batches;
  const auto flush = [&](ShardId shard, Batch& batch) {
    DataMessage message = envelope();
    message.body = std::exchange(batch, {}).items;
    outgoing_.push_back({has_source ? To::kSource : To::kShard, shard, {}, std::move(message)});
  };
  for (const Slice& place : layout_.slices()) {
    ModelAttempt::Slice& slice = attempt_->slice(layout_.index_of(place.table, place.slice));
    if (slice.is_here) continue;
    const Link& link = has_source ? source_link_ : links_.at(place.shard);
    if (!is_due(slice, link, now)) continue;
    is_again |= slice.sent.has_value();
    slice.sent = now;
    slice.parked = false;
    DataItem item;
    item.kind = pb::DataItem::FOLLOW;
    item.table = place.table;
    item.slice = place.slice;
    item.clock = attempt_->target();
    const ShardId side = has_source ? ShardId() : place.shard;
    Batch& batch = batches[side];
    batch.items.items.push_back(item);
    batch.bytes += place.count * sizeof(float);
    if (batch.bytes >= kMessageBytes || batch.items.items.size() == DataItems::kMaxItems) {
      flush(side, batch);
    }
  }
  for (auto& [side, batch] : batches) {
    if (!batch.items.items.empty()) flush(side, batch);
  }
  if (is_again) ++resends_;
}

void FollowerProtocol::take_items(const DataItems& batch, bool from_source, TimePoint now) {
  for (const DataItem& item : batch.items) {
    const Slice* place = layout_.find(item.table, item.slice);
    if (!attempt_ || attempt_->is_whole() || place == nullptr) continue;
    ModelAttempt::Slice& slice = attempt_->slice(layout_.index_of(place->table, place->slice));
    switch (item.kind) {
      case pb::DataItem::FOLLOW_VALUE:
        take_value(*place, item, from_source, now);
        break;
      case pb::DataItem::FOLLOW_PASSED: {
        if (from_source || item.clock != attempt_->target()) break;
        newest_ = std::max(newest_, item.version);
        lead_ = std::clamp<std::int64_t>(2 * lead_, 1, kMaxLead);
        in_time_ = 0;
        begin(newest_ + lead_, now);
        break;
      }
      case pb::DataItem::PARKED:
        if (item.clock == attempt_->target()) slice.parked = true;
        break;
      case pb::DataItem::REFUSED:
        // The shard is not at that host, or not yet; the coordinator knows where it is.
        if (item.clock == attempt_->target()) slice.parked = true;
        is_urgent_ = true;
        break;
      default:
        break;
    }
  }
}

void FollowerProtocol::take_value(const Slice& place, const DataItem& item, bool from_source,
                                  TimePoint now) {
  traffic_.received += item.payload.size();
  if (item.version > item.clock || item.done < item.clock) return;
  if (from_source) {
    source_link_.last_heard = now;
    owed_since_.reset();
  }
  if (from_source && item.clock > attempt_->target()) follow_source(item.clock, now);
  if (item.clock != attempt_->target()) return;
  const std::size_t index = layout_.index_of(place.table, place.slice);
  if (!attempt_->take(place, index, item.offset, item.payload)) return;
  pass_on(place, attempt_->target(), attempt_->values(place), attempt_->slice(index).filled);
  if (attempt_->is_whole()) complete(now);
}

/// The source is at a later version, of which it will send all that is missing.
void FollowerProtocol::follow_source(Clock target, TimePoint now) {
  ModelAttempt later(target, tables_, layout_, pool_);
  for (std::size_t index = 0; index < attempt_->size(); ++index) {
    const ModelAttempt::Slice& before = attempt_->slice(index);
    if (before.is_here) continue;
    later.slice(index).sent = before.sent;
    later.slice(index).parked = before.parked;
  }
  attempt_.emplace(std::move(later));
  begun_ = now;
  is_drawn_ = true;
  request(now);
}

/// Sends the part of a slice that has arrived to each peer that waits for it and lacks it.
void FollowerProtocol::pass_on(const Slice& place, Clock version, const Frame& values,
                               std::uint64_t filled) {
  const std::uint64_t most = std::max<std::uint64_t>(slice_elements_ / kPartsOfSlice, 1);
  for (const ModelRelay::Part& part : relay_.take(place, version, filled)) {
    for (std::uint64_t begin = part.begin; begin < part.end; begin += most) {
      DataItem item;
      item.kind = pb::DataItem::FOLLOW_VALUE;
      item.table = place.table;
      item.slice = place.slice;
      item.offset = place.offset + begin;
      item.count = std::min(part.end - begin, most);
      item.clock = item.version = item.done = version;
      item.payload = values.part(begin * sizeof(float), item.count * sizeof(float));
      traffic_.passed += item.payload.size();
      DataMessage message = envelope_for_peer();
      DataItems items;
      items.items.push_back(std::move(item));
      message.body = std::move(items);
      outgoing_.push_back({To::kPeer, {}, part.peer, std::move(message)});
    }
  }
}

void FollowerProtocol::finish() {
  if (attempt_->target() > version()) model_ = attempt_->finish();
  attempt_.reset();
  phase_ = Phase::kIdle;
  next_round_ = TimePoint();
  newest_ = std::max(newest_, version());
  if (lead_ > 0 && ++in_time_ >= kInTime) {
    --lead_;
    in_time_ = 0;
  }
  if (identity_.bounded && !joined_) is_urgent_ = true;
}

}  // namespace taut
