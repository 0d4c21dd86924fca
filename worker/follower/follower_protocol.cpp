#include "worker/follower/follower_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/config/job_state.hpp"
#include "proto/state_word.hpp"
#include "proto/wire_version.hpp"

namespace taut {

FollowerProtocol::FollowerProtocol(FollowerIdentity identity, FollowerTimings timings,
                                   BufferPool& pool, std::uint64_t slice_elements)
    : identity_(std::move(identity)),
      timings_(timings),
      pool_(pool),
      slice_elements_(slice_elements) {}

DataMessage FollowerProtocol::envelope() const {
  return DataMessage{identity_.job, WorkerId(), Incarnation(), {}};
}

void FollowerProtocol::send(ShardId shard, DataMessage message) {
  outgoing_.push_back({To::kShard, shard, {}, std::move(message)});
}

void FollowerProtocol::report(TimePoint now) {
  const bool waits = is_urgent_ || state_ == pb::SUBMITTED || (identity_.bounded && !joined_);
  const Duration pause = waits ? timings_.change : timings_.report;
  if (reported_ && now - *reported_ < pause) return;
  is_urgent_ = false;
  reported_ = now;
  pb::ControlMessage message;
  message.set_request(++requests_);
  pb::Follow& follow = *message.mutable_follow();
  follow.set_job(identity_.job.value());
  follow.set_follower(identity_.id.value());
  follow.set_name(identity_.name);
  // It joins with a version that it has, unless it was told that none exists: training does not
  // wait for its first one.
  const bool lacks_initial = newest_ >= Clock(0) && newest_ < first_version_;
  const bool has_none = answered_ && (state_ == pb::SUBMITTED || lacks_initial);
  follow.set_bounded(identity_.bounded && (joined_ || model_ || has_none));
  follow.set_version(version().value());
  follow.set_address(identity_.address);
  if (now >= avoided_until_) avoided_ = FollowerId();
  follow.set_avoid(avoided_.value());
  follow.set_received_bytes(traffic_.received);
  follow.set_passed_bytes(traffic_.passed);
  outgoing_.push_back({To::kCoordinator, {}, {}, std::move(message)});
}

pb::ControlMessage FollowerProtocol::goodbye() const {
  pb::ControlMessage message;
  pb::Follow& follow = *message.mutable_follow();
  follow.set_job(identity_.job.value());
  follow.set_follower(identity_.id.value());
  follow.set_name(identity_.name);
  follow.set_bounded(identity_.bounded);
  follow.set_leaves(true);
  return message;
}

void FollowerProtocol::handle(const pb::FollowReply& reply, TimePoint now) {
  answered_ = now;
  if (has_last_ || failure_) return;
  if (!reply.error().empty()) {
    failure_ = make_error(ErrorCode::kUnavailable, reply.error());
    return;
  }
  if (!reply.cut().empty()) {
    failure_ = make_error(ErrorCode::kStale, reply.cut());
    return;
  }
  state_ = reply.state();
  message_ = reply.message();
  if (state_ >= pb::DONE && !reply.lingers()) {
    // The servers have dropped its tables.
    has_last_ = is_over_ = true;
    attempt_.reset();
    phase_ = Phase::kIdle;
    return;
  }
  if (reply.lingers() && !lingers_) next_round_ = now;
  lingers_ = reply.lingers();
  if (identity_.bounded && reply.joined() && !std::exchange(joined_, true)) reset_freshness(now);
  hash_ = reply.job_hash();
  first_version_ = Clock(reply.first_version());
  take_shards(reply, now);
  take_source(reply, now);
}

void FollowerProtocol::take_shards(const pb::FollowReply& reply, TimePoint now) {
  if (shards_.empty()) {
    for (const pb::ShardInfo& shard : reply.shards()) shards_.emplace_back(shard.shard());
  }
  for (const pb::ShardInfo& shard : reply.shards()) {
    const ShardId id(shard.shard());
    const auto known = links_.find(id);
    const bool is_same = known != links_.end() && known->second.address == shard.address() &&
                         known->second.term == shard.term();
    if (is_same || (known != links_.end() && shard.term() < known->second.term)) continue;
    if (known != links_.end()) reset_gathering(now);
    Link link;
    link.address = shard.address();
    link.term = shard.term();
    links_[id] = std::move(link);
    connections_.push_back({To::kShard, id, shard.address()});
    forget_requests(id);
  }
}

/// Only rounds from now on count for the wish. When a bounded follower joins, training may be
/// further ahead of its version than its slack, and is held back from then on.
void FollowerProtocol::reset_freshness(TimePoint now) {
  wished_newest_.reset();
  is_fresh_ = false;
  fresh_from_ = next_round_ = now;
}

/// The newest version may be lost with a shard's last host and the workers that had produced it. If
/// training waits for this follower, it would never be produced again.
void FollowerProtocol::reset_gathering(TimePoint now) {
  attempt_.reset();
  relay_.restart();
  phase_ = Phase::kIdle;
  newest_ = version();
  reset_freshness(now);
}

/// The host of a shard does not know the requests: they are sent again.
void FollowerProtocol::forget_requests(ShardId shard) {
  if (phase_ == Phase::kProbing) phase_ = Phase::kIdle;
  for (const Slice& place : layout_.slices()) {
    if (!attempt_ || place.shard != shard) continue;
    ModelAttempt::Slice& slice = attempt_->slice(layout_.index_of(place.table, place.slice));
    slice.sent.reset();
    slice.parked = false;
  }
}

void FollowerProtocol::take_source(const pb::FollowReply& reply, TimePoint now) {
  const FollowerId source(reply.source());
  if (source == source_ && reply.source_address() == source_address_) return;
  if (source == avoided_ && source != FollowerId()) return;  // from before it was given up
  source_ = source;
  source_address_ = reply.source_address();
  source_heard_ = now;
  source_link_ = Link();
  connections_.push_back({To::kSource, {}, source_address_});
  attempt_.reset();
  phase_ = Phase::kIdle;
}

/// Gives up the follower that passes models on to this one, and reads from the servers until the
/// coordinator names another.
void FollowerProtocol::leave_source(TimePoint now) {
  avoided_ = source_;
  avoided_until_ = now + timings_.avoid;
  source_ = FollowerId();
  source_address_.clear();
  connections_.push_back({To::kSource, {}, ""});
  attempt_.reset();
  phase_ = Phase::kIdle;
  next_round_ = now;
  is_urgent_ = true;
}

void FollowerProtocol::greet(TimePoint now) {
  for (auto& [shard, link] : links_) {
    if (link.greeted || (link.greeting && now - *link.greeting < timings_.resend)) continue;
    link.greeting = now;
    DataMessage message = envelope();
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_build(build_name());
    hello.set_role("follower");
    hello.set_job_hash(hash_);
    hello.set_shard(shard.value());
    hello.set_term(link.term);
    message.body = std::move(hello);
    send(shard, std::move(message));
  }
}

void FollowerProtocol::confirm(TimePoint now) {
  if (!identity_.bounded || !joined_ || given_ < Clock(0) || is_over_) return;
  for (auto& [shard, link] : links_) {
    if (!link.greeted || link.confirmed >= given_) continue;
    if (link.confirming && now - *link.confirming < timings_.resend) continue;
    link.confirming = now;
    DataMessage message = envelope();
    pb::Confirm confirm;
    confirm.set_follower(identity_.id.value());
    confirm.set_version(given_.value());
    message.body = confirm;
    send(shard, std::move(message));
  }
}

void FollowerProtocol::take_tables(const pb::Description& description) {
  if (tables_ || description.tables().empty()) return;
  std::vector<TableSpec> tables;
  for (const pb::TableSpec& wire : description.tables()) {
    auto table = from_wire(wire);
    if (!table || wire.table() != tables.size()) {
      failure_ = make_error(ErrorCode::kMismatch,
                            fmt::format("job {}: a shard describes table {} as none can be",
                                        identity_.job.value(), wire.table()));
      return;
    }
    if (table.value().rows) {
      failure_ = make_error(
          ErrorCode::kMismatch,
          fmt::format("job {}: table \"{}\" is kept by rows at the servers (embed_param.by_rows), "
                      "and a follower reads whole tables; train without by_rows to follow",
                      identity_.job.value(), table.value().name));
      return;
    }
    table.value().id = TableId(wire.table());
    tables.push_back(std::move(table.value()));
  }
  layout_ = SliceLayout(tables, shards_, slice_elements_);
  tables_ = std::make_shared<const std::vector<TableSpec>>(std::move(tables));
}

void FollowerProtocol::handle(ShardId from, const DataMessage& message, TimePoint now) {
  const auto found = links_.find(from);
  if (found == links_.end() || message.job != identity_.job || is_over_) return;
  Link& link = found->second;
  link.last_heard = now;
  if (const auto* reply = std::get_if<pb::DataHelloReply>(&message.body)) {
    if (reply->greet_again()) {
      link.greeted = false;
      link.greeting.reset();
      link.cleared.reset();
      forget_requests(from);
    } else if (reply->accepted()) {
      link.greeted = true;
    } else if (!reply->later() && reply->wire_version() != kWireVersion) {
      failure_ = make_error(ErrorCode::kMismatch, fmt::format("shard {} at {}: {}", from.value(),
                                                              link.address, reply->reason()));
    } else {
      is_urgent_ = true;  // the shard may have moved, or the job is over
    }
  } else if (const auto* description = std::get_if<pb::Description>(&message.body)) {
    take_tables(*description);
    newest_ = std::max(newest_, Clock(description->highest()));
    newest_branch_ = std::max(newest_branch_, message.incarnation.value());
    note_round(link, *description);
    if (phase_ != Phase::kIdle && description->round() == round_) link.said = *description;
    judge_round(now);
  } else if (const auto* confirmed = std::get_if<pb::ConfirmReply>(&message.body)) {
    if (confirmed->follower() != identity_.id.value()) return;
    if (confirmed->known()) {
      link.confirmed = std::max(link.confirmed, Clock(confirmed->version()));
      if (link.confirmed < given_) link.confirming.reset();
    } else {
      is_urgent_ = true;  // it was cut, or the shard does not know it yet
    }
  } else if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    take_items(*batch, false, now);
  }
}

void FollowerProtocol::handle_source(const DataMessage& message, TimePoint now) {
  if (message.job != identity_.job || source_ == FollowerId() || is_over_) return;
  source_heard_ = now;
  const auto* batch = std::get_if<DataItems>(&message.body);
  if (batch != nullptr && is_of_branch(message)) take_items(*batch, true, now);
  if (const auto* description = std::get_if<pb::Description>(&message.body)) {
    note_round(source_link_, *description);
  }
}

void FollowerProtocol::handle_peer(PeerId from, const DataMessage& message) {
  if (message.job != identity_.job || identity_.address.empty()) return;
  if (const auto* question = std::get_if<pb::Describe>(&message.body)) {
    relay_.refresh(from);
    DataMessage answer = envelope_for_peer();
    pb::Description description;
    description.set_round(question->round());
    description.set_lowest(version().value());
    description.set_highest(version().value());
    answer.body = std::move(description);
    outgoing_.push_back({To::kPeer, {}, from, std::move(answer)});
    return;
  }
  const auto* batch = std::get_if<DataItems>(&message.body);
  if (batch == nullptr) return;
  DataItems parked;
  for (const DataItem& item : batch->items) {
    if (item.kind != pb::DataItem::FOLLOW) continue;
    const Slice* place = layout_.find(item.table, item.slice);
    relay_.park(from, item);
    if (place != nullptr) {
      const std::size_t index = layout_.index_of(place->table, place->slice);
      if (model_) pass_on(*place, model_->version, slice_of(*model_, *place), place->count);
      if (attempt_) {
        pass_on(*place, attempt_->target(), attempt_->values(*place),
                attempt_->slice(index).filled);
      }
    }
    DataItem answer;
    answer.kind = pb::DataItem::PARKED;
    answer.table = item.table;
    answer.slice = item.slice;
    answer.clock = item.clock;
    parked.items.push_back(answer);
  }
  // A peer that was served at once learns from this only that this side is alive.
  if (parked.items.empty()) return;
  DataMessage answer = envelope_for_peer();
  answer.body = std::move(parked);
  outgoing_.push_back({To::kPeer, {}, from, std::move(answer)});
}

void FollowerProtocol::tick(TimePoint now) {
  if (is_over_ || failure_) return;
  if (has_last_) {
    // This follower no longer needs the servers' tables.
    outgoing_.push_back({To::kCoordinator, {}, {}, goodbye()});
    is_over_ = true;
    return;
  }
  report(now);
  greet(now);
  if (!aged_ || now - *aged_ >= timings_.source_silence) {
    aged_ = now;
    relay_.age();
  }
  const bool waits_for_source = source_ != FollowerId() && attempt_ && source_heard_;
  if (waits_for_source && now - std::max(*source_heard_, begun_) > timings_.source_silence) {
    leave_source(now);
  }
  advance(now);
  confirm(now);
}

std::optional<Error> FollowerProtocol::failure() const {
  if (failure_) return failure_;
  if (!is_over_) return std::nullopt;
  if (wish_ && model_ && model_->version > given_ && model_->version >= wish_->at_least) {
    return std::nullopt;
  }
  return make_error(ErrorCode::kClosed,
                    fmt::format("job {} is over: it is {}{}{}; {}", identity_.job.value(),
                                state_word(state_), message_.empty() ? "" : ", ", message_,
                                model_ ? fmt::format("the last version that was read is {}",
                                                     model_->version.value())
                                       : std::string("no version of it was read")));
}

std::string FollowerProtocol::waits_for(TimePoint now) const {
  const auto old = [&](const std::optional<TimePoint>& when) {
    return !when || now - *when > 2 * timings_.resend;
  };
  if (links_.empty()) {
    if (!answered_) return "the coordinator has not answered";
    return fmt::format("the job has not started{}{}", message_.empty() ? "" : ": ", message_);
  }
  for (const auto& [shard, link] : links_) {
    if (old(link.last_heard)) {
      return fmt::format("shard {} at {} has not answered for {}", shard.value(), link.address,
                         link.last_heard ? fmt::format("{:.0f} s", seconds(now - *link.last_heard))
                                         : std::string("as long as it was asked"));
    }
  }
  if (identity_.bounded && !joined_) return "the servers have not heard yet that it follows";
  if (newest_ < first_version_) return "no member has brought initial values yet";
  if (attempt_ && newest_ >= attempt_->target()) {
    return fmt::format("version {} is being read, {} of its {} slices are here; the newest is {}",
                       attempt_->target().value(), attempt_->size() - attempt_->missing(),
                       attempt_->size(), newest_.value());
  }
  return fmt::format("the newest version is {}", newest_.value());
}

}  // namespace taut
