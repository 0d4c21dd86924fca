#include "worker/collective/all_reduce_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut::collective {
namespace {

constexpr Duration kWait = std::chrono::milliseconds(50);
// Other ranks read lent values within moments; a wait by the system takes longer.
constexpr Duration kSpin = std::chrono::milliseconds(2);
// What a kept chunk takes in addition to its values.
constexpr std::uint64_t kEarlyBytes = 256;

}  // namespace

AllReduceGroup::AllReduceGroup(Endpoint& endpoint, GroupOptions options)
    : endpoint_(endpoint),
      options_(std::move(options)),
      chunk_(chunk_elements(options_.message.value())),
      window_(std::max(options_.window.value(), 4 * chunk_ * sizeof(float))) {
  TAUT_CHECK(options_.rank.value() < options_.members.size(), "a rank outside of its group");
}

void AllReduceGroup::disconnect() {
  for (const auto& [rank, receiver] : receivers_) endpoint_.disconnect(receiver.peer);
}

RankPlace AllReduceGroup::place() const {
  RankPlace place{options_.rank, {}};
  for (const GroupMember& member : options_.members) place.host_of.push_back(member.host);
  return place;
}

std::string AllReduceGroup::name_of(Rank rank) const {
  const GroupMember& member = options_.members[rank.value()];
  return fmt::format("rank {} ({} at {})", rank.value(), member.name, member.address);
}

Result<void> AllReduceGroup::fail(Error error) {
  if (!failed_) failed_ = std::move(error);
  return *failed_;
}

/// For greetings and other messages that are repeated.
void AllReduceGroup::send(Rank to, const PeerMessage& message) {
  if (const auto sent = endpoint_.send(receivers_.at(to).peer, encode(message)); !sent) {
    log::debug("{}: {}", name_of(to), sent.error().message);
  }
}

bool AllReduceGroup::send_chunk(Receiver& receiver, const Message& frames) {
  const std::uint64_t bytes = frames.frames.size() > 1 ? frames.frames[1].size() : 0;
  if (receiver.sent - receiver.taken + bytes > window_) return false;
  if (!endpoint_.send(receiver.peer, frames)) return false;
  receiver.sent += bytes;
  return true;
}

void AllReduceGroup::send(SumId sum, std::vector<ChunkTo> chunks) {
  for (ChunkTo& one : chunks) {
    Chunk& chunk = one.chunk;
    ++sent_.messages;
    sent_.bytes += chunk.payload.size();
    TAUT_CHECK(receivers_.contains(one.to), "a sum before the group has connected");
    Receiver& receiver = receivers_.at(one.to);
    SharedLink* const link =
        receiver.link && receiver.link->is_open() ? receiver.link.get() : nullptr;
    Message frames = encode({options_.group, options_.rank.value(),
                             SumChunk{.sum = sum,
                                      .is_final = chunk.phase == Phase::kFinal,
                                      .total = chunk.total,
                                      .offset = chunk.offset,
                                      .count = chunk.count,
                                      .payload = std::move(chunk.payload)}},
                            link);
    if (!receiver.queue.empty() || !send_chunk(receiver, frames)) {
      receiver.queue.push_back(std::move(frames));
    }
  }
}

/// Sends queued chunks, as far as the window has room now.
void AllReduceGroup::flush() {
  for (auto& [rank, receiver] : receivers_) {
    while (!receiver.queue.empty() && send_chunk(receiver, receiver.queue.front())) {
      receiver.queue.pop_front();
    }
  }
  for (auto& [rank, sender] : senders_) tell_taken(sender);
}

/// Lets a rank send more. If this cannot be sent now, the next flush() sends it.
void AllReduceGroup::tell_taken(Sender& sender) {
  if (sender.taken - sender.notified < window_ / 4) return;
  pb::PeerTaken taken;
  taken.set_bytes(sender.taken);
  if (endpoint_.send(sender.peer, encode({options_.group, options_.rank.value(), taken}))) {
    sender.notified = sender.taken;
  }
}

Result<void> AllReduceGroup::step(Duration wait) {
  if (failed_) return *failed_;
  if (options_.is_over && options_.is_over()) {
    return fail(make_error(ErrorCode::kClosed, "the group of workers that sum has changed"));
  }
  flush();
  for (auto& [rank, receiver] : receivers_) {
    if (receiver.link && receiver.link->is_open()) receiver.link->collect();
    if (!receiver.queue.empty()) wait = std::min<Duration>(wait, std::chrono::milliseconds(1));
  }
  auto incoming = endpoint_.receive(wait);
  while (incoming) {
    TAUT_TRY(receive(*incoming));
    incoming = endpoint_.receive(Duration(0));
  }
  if (auto refused = refusal()) return fail(std::move(*refused));
  return ok();
}

Result<void> AllReduceGroup::poll() {
  return step(Duration(0));
}

std::optional<Error> AllReduceGroup::refusal() const {
  for (const auto& [rank, receiver] : receivers_) {
    const auto refused = endpoint_.refusal(receiver.peer);
    if (!refused || !refused->is_final) continue;
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} {}", name_of(rank), refused->reason));
  }
  return std::nullopt;
}

/// Whether a message is from its rank's process, judging by the sender's key.
bool AllReduceGroup::is_from(const Incoming& incoming, Rank rank) const {
  const Identity* const sender = incoming.sender.get();
  return sender == nullptr || sender->role == KeyRole::kOwner ||
         sender->name == options_.members[rank.value()].name;
}

/// Logs the 1st, 2nd, 4th, 8th ... dropped message, so that a peer cannot fill the log.
void AllReduceGroup::drop(const std::string& why) {
  if (!std::has_single_bit(++dropped_)) return;
  log::warn("dropped a message to rank {} of a group ({} so far): {}", options_.rank.value(),
            dropped_, why);
}

Result<void> AllReduceGroup::receive(const Incoming& incoming) {
  const auto replies = rank_of_.find(incoming.from);
  SharedLink* link = nullptr;
  for (const auto& [rank, sender] : senders_) {
    if (sender.peer == incoming.from) link = sender.link.get();
  }
  auto message = decode_peer(incoming.message, link);
  if (!message) {
    drop(message.error().message);
    return ok();
  }
  const PeerMessage& what = message.value();
  if (what.group != options_.group || what.rank >= options_.members.size()) {
    log::debug("dropped a message of rank {} of another group", what.rank);
    return ok();
  }
  const Rank from(what.rank);
  if (replies != rank_of_.end()) return receive_reply(replies->second, what);
  if (!is_from(incoming, from)) {
    drop(fmt::format("it says that it is from {}, and its key is that of {}", name_of(from),
                     incoming.sender->name));
    return ok();
  }
  if (const auto* hello = std::get_if<pb::PeerHello>(&what.body)) {
    return receive_hello(incoming, from, *hello);
  }
  if (const auto* waits = std::get_if<pb::PeerWaits>(&what.body)) {
    if (waits->rank() < options_.members.size()) {
      waiting_[from] = {Rank(waits->rank()), options_.time->now()};
    }
    return ok();
  }
  if (const auto* chunk = std::get_if<SumChunk>(&what.body)) {
    return receive_chunk(incoming, from, *chunk);
  }
  return ok();
}

Result<void> AllReduceGroup::receive_chunk(const Incoming& incoming, Rank from,
                                           const SumChunk& chunk) {
  const auto known = senders_.find(from);
  if (known == senders_.end() || known->second.peer != incoming.from) {
    // It has reconnected: what was under way is lost.
    return fail(make_error(ErrorCode::kUnavailable,
                           fmt::format("{}: its connection broke", name_of(from))));
  }
  known->second.has_sent = true;
  heard_ = options_.time->now();
  if (incoming.message.frames.size() > 1) known->second.taken += chunk.payload.size();
  tell_taken(known->second);
  waiting_.erase(from);
  Chunk one{.phase = chunk.is_final ? Phase::kFinal : Phase::kPartial,
            .total = chunk.total,
            .offset = chunk.offset,
            .count = chunk.count,
            .payload = chunk.payload};
  if (is_pair(chunk.sum)) return receive_pair(chunk.sum, from, one);
  if (chunk.sum < next_) return apply(chunk.sum, from, one);
  early_bytes_ += chunk.payload.size() + kEarlyBytes;
  if (early_bytes_ > options_.early.value()) {
    return fail(
        invalid(fmt::format("{} is at sum {} and this rank at {}: more than {} bytes "
                            "would be kept until then",
                            name_of(from), chunk.sum, next_, options_.early.value())));
  }
  early_[chunk.sum].push_back({from, std::move(one)});
  return ok();
}

Result<void> AllReduceGroup::apply(SumId sum, Rank from, const Chunk& chunk) {
  const auto found = sums_.find(sum);
  if (found == sums_.end()) return ok();  // a duplicate: the sum is complete
  auto out = found->second.receive(from, chunk, options_.time->now());
  if (!out) {
    return fail(make_error(out.error().code, fmt::format("sum {} with {}: {}", sum, name_of(from),
                                                         out.error().message)));
  }
  send(sum, std::move(out.value()));
  if (found->second.is_done()) sums_.erase(found);
  return ok();
}

Result<AllReduceGroup::SumId> AllReduceGroup::begin(const Buffer& values) {
  if (failed_) return *failed_;
  const std::uint64_t count = values.size() / sizeof(float);
  return begin_exchange(values, make_schedule(options_.algorithm, place(), count), count);
}

Result<AllReduceGroup::SumId> AllReduceGroup::begin_exchange(const Buffer& values,
                                                             const Schedule& schedule,
                                                             std::uint64_t total) {
  if (failed_) return *failed_;
  const SumId sum = next_++;
  AllReduce& one = sums_.try_emplace(sum, schedule, values, chunk_, total).first->second;
  send(sum, one.start(options_.time->now()));
  if (one.is_done()) sums_.erase(sum);
  auto early = early_.extract(sum);
  if (early.empty()) return sum;
  for (const Early& each : early.mapped()) {
    early_bytes_ -= each.chunk.payload.size() + kEarlyBytes;
    TAUT_TRY(apply(sum, each.from, each.chunk));
  }
  return sum;
}

/// The rank that everything waits for, as far as the ranks in between have reported.
Rank AllReduceGroup::blamed(Rank missing, TimePoint now) const {
  const auto said = waiting_.find(missing);
  const bool is_new =
      said != waiting_.end() && now - said->second.since < options_.silence_limit / 2;
  return is_new ? said->second.rank : missing;
}

Error AllReduceGroup::silence_of(SumId sum, const AllReduce::Missing& missing) const {
  const Rank guilty = blamed(missing.from, options_.time->now());
  std::string message =
      fmt::format("{} has not sent {} of sum {} for {:.1f} s", name_of(missing.from),
                  to_string(missing.phase, missing.range), sum, seconds(missing.silence));
  if (guilty != missing.from) {
    message += guilty == options_.rank
                   ? "; it waits for what this rank sent, so messages were lost"
                   : fmt::format("; it waits for {}, which does not answer", name_of(guilty));
  }
  return make_error(ErrorCode::kTimeout, std::move(message));
}

/// Waits briefly for what continues a sum.
Result<void> AllReduceGroup::wait_for_more(SumId sum) {
  TAUT_TRY(step(std::min(kWait, options_.silence_limit / 16)));
  const auto found = sums_.find(sum);
  if (found == sums_.end()) return ok();
  const TimePoint now = options_.time->now();
  const auto missing = found->second.waits_for(now);
  if (!missing || missing->silence < options_.silence_limit / 8) return ok();
  if (missing->silence >= options_.silence_limit) return fail(silence_of(sum, *missing));
  if (now < said_so_ + options_.silence_limit / 8) return ok();
  said_so_ = now;
  const Rank guilty = blamed(missing->from, now);
  // A rank may compute for long, and is waited for; only people can tell that one hangs.
  log::warn("has waited {:.1f} s for {}: it computes or hangs", seconds(missing->silence),
            name_of(guilty == options_.rank ? missing->from : guilty));
  pb::PeerWaits waits;
  waits.set_rank(guilty.value());
  for (const auto& [rank, receiver] : receivers_) {
    send(rank, {options_.group, options_.rank.value(), waits});
  }
  return ok();
}

Result<void> AllReduceGroup::wait(SumId sum) {
  TAUT_CHECK(sum < next_ || is_pair(sum), "a sum that was not begun");
  if (failed_) return *failed_;
  while (sums_.contains(sum)) {
    TAUT_TRY(wait_for_more(sum));
  }
  return ok();
}

Result<void> AllReduceGroup::wait_until_free(const Buffer& values) {
  const TimePoint start = options_.time->now();
  while (true) {
    TAUT_TRY(poll());
    if (values.unshared()) return ok();
    const Duration waited = options_.time->now() - start;
    if (waited >= options_.silence_limit) {
      std::vector<std::string> readers;
      for (const auto& [rank, receiver] : receivers_) {
        const bool borrows = receiver.link && receiver.link->on_loan() > 0;
        if (borrows || !receiver.queue.empty()) readers.push_back(name_of(rank));
      }
      return fail(make_error(
          ErrorCode::kTimeout,
          fmt::format("{} bytes of a sum are still in use after {:.1f} s: {}", values.size(),
                      seconds(waited),
                      readers.empty() ? "they are shared here"
                                      : fmt::format("{} read them", fmt::join(readers, " and ")))));
    }
    if (options_.shared_memory && waited < kSpin) {
      std::this_thread::yield();
    } else {
      TAUT_TRY(step(std::chrono::milliseconds(1)));
    }
  }
}

Result<void> AllReduceGroup::all_reduce(const Buffer& values) {
  TAUT_TRY(const SumId sum, begin(values));
  TAUT_TRY(wait(sum));
  return wait_until_free(values);
}

std::size_t AllReduceGroup::shares_memory_with() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      receivers_, [](const auto& one) { return one.second.link && one.second.link->is_open(); }));
}

}  // namespace taut::collective
