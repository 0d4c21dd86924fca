// How the ranks of a group find each other: connections, greetings, what they agree on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>
#include <utility>

#include "common/log.hpp"
#include "proto/session/shared_handshake.hpp"
#include "proto/wire_version.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::collective {
namespace {

constexpr Duration kGreetAgain = std::chrono::milliseconds(100);
constexpr Duration kGreetingWait = std::chrono::milliseconds(50);
// A rank may compute for this long before it joins.
constexpr Duration kLongSilence = std::chrono::seconds(10);
constexpr Duration kWarnAgain = std::chrono::minutes(1);
// Why a rank does not answer although the transport reaches it.
constexpr const char* kComputes = "it is reached, so it computes or hangs";

}  // namespace

std::string AllReduceGroup::agreement() const {
  return fmt::format("{}{} of {} ranks, at most {} elements in a message, on hosts {}",
                     options_.exchange_name, to_string(options_.algorithm), options_.members.size(),
                     chunk_, fmt::join(place().host_of, " "))
      .substr(0, GroupOptions::kMaxAgreement.value());
}

/// Transfers between this rank and all with which it has any.
Schedule AllReduceGroup::links() const {
  // Those of a large sum: in a small one, some ranks have nothing to send.
  Schedule all = make_schedule(options_.algorithm, place(), std::uint64_t{1} << 30U);
  all.insert(all.end(), options_.exchange.begin(), options_.exchange.end());
  return all;
}

Result<void> AllReduceGroup::connect(Duration limit) {
  std::set<Rank> senders;
  for (const Transfer& transfer : links()) {
    if (!transfer.is_send) senders.insert(transfer.peer);
    if (!transfer.is_send || receivers_.contains(transfer.peer)) continue;
    const GroupMember& member = options_.members[transfer.peer.value()];
    endpoint_.expect_key(member.key);
    auto peer = endpoint_.connect(member.address);
    if (!peer) return fail(peer.error());
    receivers_[transfer.peer].peer = peer.value();
    rank_of_[peer.value()] = transfer.peer;
  }
  const TimePoint began = options_.time->now();
  const TimePoint deadline = began + limit;
  TimePoint warns_at = began + kLongSilence;
  TimePoint greeted;
  while (true) {
    std::set<Rank> missing;
    const bool greets = options_.time->now() >= greeted + kGreetAgain;
    for (const auto& [rank, receiver] : receivers_) {
      if (receiver.has_accepted) continue;
      missing.insert(rank);
      if (greets) greet(rank);
    }
    // A rank that has not greeted this one would wait until this one listens again.
    for (const Rank rank : senders) {
      if (!senders_.contains(rank)) missing.insert(rank);
    }
    if (missing.empty()) return ok();
    const TimePoint now = options_.time->now();
    if (greets) greeted = now;
    if (now >= deadline) {
      return fail(make_error(
          ErrorCode::kTimeout,
          fmt::format("{} did not answer within {:.1f} s: {}", names_of(missing), seconds(limit),
                      unreached().empty()
                          ? kComputes
                          : "each worker must reach the others at these addresses")));
    }
    if (now >= warns_at) {
      warns_at = now + kWarnAgain;
      log::warn("{} has not answered for {:.0f} s: {}", names_of(missing), seconds(now - began),
                unreached().empty()
                    ? kComputes
                    : "it computes, or a firewall is between this worker and that port");
    }
    TAUT_TRY(step(kGreetingWait));
  }
}

std::string AllReduceGroup::unreached() const {
  std::set<Rank> ranks;
  for (const auto& [rank, receiver] : receivers_) {
    if (!receiver.has_accepted && !endpoint_.has_reached(receiver.peer)) ranks.insert(rank);
  }
  return names_of(ranks);
}

std::string AllReduceGroup::names_of(const std::set<Rank>& ranks) const {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const Rank rank : ranks) names.push_back(name_of(rank));
  return fmt::format("{}", fmt::join(names, " and "));
}

void AllReduceGroup::greet(Rank rank) {
  pb::PeerHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_build(build_name());
  hello.set_agreement(agreement());
  Receiver& receiver = receivers_.at(rank);
  if (options_.shared_memory) {
    try {
      if (!receiver.link) receiver.link = std::make_unique<SharedLink>(options_.shared_memory);
      *hello.mutable_shared_memory() = to_wire(receiver.link->offer());
    } catch (const std::bad_alloc&) {
      log::warn("{}: values travel as bytes: no shared memory is left", name_of(rank));
    }
  }
  send(rank, {options_.group, options_.rank.value(), std::move(hello)});
}

Result<void> AllReduceGroup::receive_reply(Rank from, const PeerMessage& message) {
  Receiver& receiver = receivers_.at(from);
  if (const auto* taken = std::get_if<pb::PeerTaken>(&message.body)) {
    receiver.taken = std::clamp(taken->bytes(), receiver.taken, receiver.sent);
    flush();
    return ok();
  }
  const auto* reply = std::get_if<pb::PeerHelloReply>(&message.body);
  if (reply == nullptr || receiver.has_accepted) return ok();
  if (!reply->accepted()) {
    return fail(make_error(ErrorCode::kMismatch,
                           fmt::format("{} refused: {}", name_of(from), reply->reason())));
  }
  receiver.has_accepted = true;
  if (!receiver.link) return ok();
  if (!reply->has_shared_memory()) {
    receiver.link.reset();
    return ok();
  }
  const auto offer = from_wire(reply->shared_memory());
  if (!offer || !receiver.link->open(offer.value(), ArenaPages::kStay)) {
    receiver.link.reset();
    return ok();
  }
  receiver.link->start();
  return ok();
}

Result<void> AllReduceGroup::receive_hello(const Incoming& incoming, Rank from,
                                           const pb::PeerHello& hello) {
  Sender& sender = senders_[from];
  if (sender.peer != incoming.from) {
    if (sender.has_sent) {
      return fail(make_error(ErrorCode::kUnavailable,
                             fmt::format("{}: its connection broke", name_of(from))));
    }
    sender = Sender{.peer = incoming.from, .link = nullptr};
  }
  pb::PeerHelloReply reply;
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  std::string reason;
  if (hello.wire_version() != kWireVersion) {
    reason = wire_mismatch(kWireVersion, build_name(), hello.wire_version(), hello.build());
  } else if (hello.agreement() != agreement()) {
    reason = fmt::format("a group is set up alike at every rank: {} has {}; {} has {}",
                         name_of(options_.rank), agreement(), name_of(from), hello.agreement());
  }
  reply.set_accepted(reason.empty());
  reply.set_reason(reason);
  if (reason.empty() && options_.shared_memory && hello.has_shared_memory()) {
    const auto offer = from_wire(hello.shared_memory());
    try {
      if (!sender.link && offer) {
        auto link = std::make_unique<SharedLink>(options_.shared_memory);
        if (link->open(offer.value(), ArenaPages::kStay)) sender.link = std::move(link);
      }
    } catch (const std::bad_alloc&) {
      log::warn("{}: values travel as bytes: no shared memory is left", name_of(from));
    }
    if (sender.link) *reply.mutable_shared_memory() = to_wire(sender.link->offer());
  }
  const auto sent = endpoint_.send(
      incoming.from, encode({options_.group, options_.rank.value(), std::move(reply)}));
  if (!sent) log::debug("{}: {}", name_of(from), sent.error().message);
  if (!reason.empty()) return fail(make_error(ErrorCode::kMismatch, reason));
  return ok();
}

}  // namespace taut::collective
