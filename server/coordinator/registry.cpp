#include "server/coordinator/registry.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace taut {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxRivals = 64;
constexpr std::size_t kMaxRememberedLost = 1024;
constexpr double kMaxInterval_s = 86400;
// A message heard within this time after a connection has closed was sent before.
constexpr Duration kLateMessages = std::chrono::milliseconds(200);

const char* role_name(pb::Role role) {
  return role == pb::ROLE_SERVER ? "server" : "worker";
}

std::string bad_hello(const pb::Hello& hello) {
  if (hello.name().empty() || hello.name().size() > kMaxNameBytes) {
    return fmt::format("a {}'s name has {} bytes; it must have 1 to {}", role_name(hello.role()),
                       hello.name().size(), kMaxNameBytes);
  }
  if (hello.role() == pb::ROLE_SERVER && hello.shard_addresses().empty()) {
    return fmt::format("server \"{}\" has no shards; set server {{ shards: N }}", hello.name());
  }
  return "";
}

/// Takes a process's own facts, also of one that was known before the coordinator restarted.
void take_facts(const pb::Hello& hello, Participant& participant) {
  participant.host = hello.host();
  participant.memory_bytes = hello.memory_bytes();
  participant.memory_is_own = hello.memory_is_own();
  participant.devices = hello.devices();
  participant.table_limit_bytes = hello.table_limit_bytes();
  const double interval = hello.heartbeat_interval_s();
  const bool is_sound = interval > 0 && interval <= kMaxInterval_s;
  participant.heartbeat_interval = is_sound ? from_seconds(interval) : Duration::zero();
}

std::string taken(const Participant& holder, TimePoint now) {
  return fmt::format(
      "{} has already joined, {:.1f} s ago; choose another name with {} {{ name: \"...\" }}",
      holder.title(), seconds(now - holder.joined), role_name(holder.role));
}

}  // namespace

std::string Participant::title() const {
  const std::string place =
      shard_addresses.empty() ? "" : fmt::format(" at {}", shard_addresses.front());
  return fmt::format("{} \"{}\"{}", role_name(role), name, place);
}

Greeting Registry::greet(PeerId from, const pb::Hello& hello, TimePoint now) {
  if (std::string reason = bad_hello(hello); !reason.empty()) return {nullptr, reason};
  const auto found = participants_.find({hello.role(), hello.name()});
  if (found == participants_.end()) {
    forget_lost();
    if (participants_.size() >= max_participants_) {
      return {nullptr, fmt::format("{} servers and workers have joined, which is the limit",
                                   participants_.size())};
    }
    return {&enter(from, hello, now), "", true};
  }
  Participant& known = found->second;
  if (known.session == hello.session() && !known.lost) {
    attach(known, from, now);
    take_facts(hello, known);
    return {&known, "", false};
  }
  // After a restart of the coordinator, a new process implies that the old one has ended.
  const bool recovered_only = !known.peer && !known.lost;
  if (known.lost || recovered_only) return {&enter(from, hello, now), "", true};

  if (known.rivals.size() >= kMaxRivals) known.rivals.clear();
  const auto [rival, first_time] = known.rivals.try_emplace(hello.session(), known.messages);
  const bool alive = known.messages > rival->second;
  return {nullptr, alive ? taken(known, now) : "", false};
}

void Registry::forget_lost() {
  std::vector<std::pair<TimePoint, Key>> lost;
  for (const auto& [key, participant] : participants_) {
    if (participant.lost) lost.emplace_back(participant.last_heard, key);
  }
  if (lost.size() <= kMaxRememberedLost) return;
  // Half of them at once, so that not every join has to search.
  const auto last =
      lost.begin() + static_cast<std::ptrdiff_t>(lost.size() - kMaxRememberedLost / 2);
  std::nth_element(lost.begin(), last, lost.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto entry = lost.begin(); entry != last; ++entry) participants_.erase(entry->second);
}

Participant& Registry::enter(PeerId from, const pb::Hello& hello, TimePoint now) {
  ++changes_;
  Participant& slot = participants_[{hello.role(), hello.name()}];
  // The reason why an earlier life ended concerns only the same process.
  const bool is_same = slot.session == hello.session();
  const std::string reason = is_same ? slot.lost_reason : "";
  if (!is_same) leaving_.erase(slot.session);
  detach(slot);
  slot = Participant();
  slot.role = hello.role();
  slot.name = hello.name();
  slot.session = hello.session();
  slot.incarnation = Incarnation(next_incarnation_++);
  slot.shard_addresses.assign(hello.shard_addresses().begin(), hello.shard_addresses().end());
  slot.device = hello.device();
  slot.job = JobId(hello.job());
  slot.leaves = leaving_.contains(slot.session);
  take_facts(hello, slot);
  slot.joined = now;
  slot.lost_reason = reason;
  attach(slot, from, now);
  return slot;
}

void Registry::attach(Participant& participant, PeerId from, TimePoint now) {
  ++connections_;
  if (participant.peer != from) participant.closed.reset();
  detach(participant);
  participant.peer = from;
  peers_[from] = {participant.role, participant.name};
  note_heard(participant, now);
  none_silent_until_ = std::min(none_silent_until_, now + heartbeat_limit_);
}

void Registry::note_heard(Participant& participant, TimePoint now) {
  if (participant.messages > 0) {
    const Duration silence = now - participant.last_heard;
    participant.gap = std::max(silence, participant.gap - silence / 8);
  }
  participant.last_heard = now;
  if (participant.closed && now - *participant.closed > kLateMessages) participant.closed.reset();
  ++participant.messages;
}

void Registry::note_closed(PeerId peer, TimePoint now) {
  const auto known = peers_.find(peer);
  if (known == peers_.end() || now < closes_ignored_until_) return;
  participants_.at(known->second).closed = now;
  std::size_t live = 0;
  std::size_t closed = 0;
  for (const auto& [key, participant] : participants_) {
    if (participant.lost) continue;
    ++live;
    if (participant.closed) ++closed;
  }
  if (closed < 2 || 2 * closed <= live) {
    none_silent_until_ = std::min(none_silent_until_, now);
    return;
  }
  for (auto& [key, participant] : participants_) participant.closed.reset();
  closes_ignored_until_ = now + heartbeat_limit_;
}

TimePoint Registry::closed_deadline_of(const Participant& participant) {
  const bool is_known = participant.heartbeat_interval > Duration::zero();
  if (!participant.closed || !is_known) return TimePoint::never();
  return *participant.closed +
         std::max(kMaxClosed, 2 * std::max(participant.heartbeat_interval, participant.gap));
}

void Registry::detach(Participant& participant) {
  if (!participant.peer) return;
  // A peer that sent hellos under several names counts as the last of them.
  const auto entry = peers_.find(*participant.peer);
  const Key key{participant.role, participant.name};
  if (entry != peers_.end() && entry->second == key) peers_.erase(entry);
  participant.peer.reset();
}

void Registry::recover(Participant participant, TimePoint now) {
  Key key{participant.role, participant.name};
  const auto known = participants_.find(key);
  if (known != participants_.end() && known->second.incarnation > participant.incarnation) return;
  ++changes_;
  participant.peer.reset();
  participant.leaves = leaving_.contains(participant.session);
  participant.joined = now;
  participant.last_heard = now;
  none_silent_until_ = std::min(none_silent_until_, now + heartbeat_limit_);
  participants_.insert_or_assign(std::move(key), std::move(participant));
}

Participant* Registry::hear(PeerId from, TimePoint now) {
  const auto known = peers_.find(from);
  if (known == peers_.end()) return nullptr;
  Participant& participant = participants_.at(known->second);
  note_heard(participant, now);
  return &participant;
}

void Registry::lose(Participant& participant, const std::string& reason) {
  ++changes_;
  participant.lost = true;
  participant.lost_reason = reason;
  participant.rivals.clear();
  // If it is alive, it reports itself that it leaves.
  leaving_.erase(participant.session);
  detach(participant);
}

std::vector<const Participant*> Registry::lose_silent(TimePoint now) {
  std::vector<const Participant*> lost;
  if (now <= none_silent_until_) return lost;
  none_silent_until_ = TimePoint::never();
  for (auto& [key, participant] : participants_) {
    const Duration silence = now - participant.last_heard;
    if (participant.lost) continue;
    const TimePoint deadline = participant.last_heard + heartbeat_limit_;
    const TimePoint closed_deadline = closed_deadline_of(participant);
    // A message of this process may have arrived and not been heard yet.
    const bool is_closed = idle_ > closed_deadline;
    if (now <= deadline && !is_closed) {
      none_silent_until_ = std::min({none_silent_until_, deadline, closed_deadline});
      continue;
    }
    std::string detail = participant.peer ? "" : " after the coordinator's restart";
    if (is_closed) {
      detail =
          fmt::format(" (its connection closed {:.1f} s ago)", seconds(now - *participant.closed));
    }
    lose(participant, fmt::format("{} was silent for {:.1f} s{}", participant.title(),
                                  seconds(silence), detail));
    lost.push_back(&participant);
  }
  return lost;
}

void Registry::excuse_silence(Duration pause, TimePoint now) {
  for (auto& [key, participant] : participants_) {
    participant.last_heard = std::min(participant.last_heard + pause, now);
  }
}

const Participant* Registry::find(pb::Role role, const std::string& name) const {
  const auto found = participants_.find({role, name});
  return found == participants_.end() ? nullptr : &found->second;
}

const Participant* Registry::find(PeerId peer) const {
  const auto known = peers_.find(peer);
  return known == peers_.end() ? nullptr : find(known->second.first, known->second.second);
}

bool Registry::has_absent() const {
  return std::ranges::any_of(
      participants_, [](const auto& entry) { return !entry.second.peer && !entry.second.lost; });
}

bool Registry::is_silent(const Participant& participant) const {
  return std::ranges::any_of(participants_, [&](const auto& entry) {
    return entry.second.last_heard - participant.last_heard > heartbeat_limit_ / 2;
  });
}

Duration Registry::longest_interval() const {
  Duration longest{};
  for (const auto& [key, participant] : participants_) {
    if (participant.peer) longest = std::max(longest, participant.heartbeat_interval);
  }
  return longest;
}

const Participant* Registry::find_live(pb::Role role, const std::string& name,
                                       Incarnation incarnation) const {
  const Participant* found = find(role, name);
  return found != nullptr && !found->lost && found->incarnation == incarnation ? found : nullptr;
}

std::vector<const Participant*> Registry::all(pb::Role role) const {
  std::vector<const Participant*> chosen;
  for (const auto& [key, participant] : participants_) {
    if (key.first == role) chosen.push_back(&participant);
  }
  return chosen;
}

std::vector<const Participant*> Registry::live(pb::Role role) const {
  std::vector<const Participant*> chosen = all(role);
  std::erase_if(chosen, [](const Participant* one) { return !one->peer; });
  return chosen;
}

std::vector<const Participant*> Registry::available(pb::Role role) const {
  std::vector<const Participant*> chosen = live(role);
  std::erase_if(chosen, [this](const Participant* one) {
    return one->leaves || avoided_.contains(one->session);
  });
  return chosen;
}

std::vector<const Participant*> Registry::available_for(JobId job) const {
  std::vector<const Participant*> chosen = available(pb::ROLE_WORKER);
  std::erase_if(chosen, [job](const Participant* one) { return one->job != job; });
  return chosen;
}

void Registry::drain(pb::Role role, const std::string& name) {
  const auto known = participants_.find({role, name});
  if (known == participants_.end()) return;
  known->second.leaves = true;
  if (!known->second.lost) leaving_.insert(known->second.session);
  ++changes_;
}

void Registry::forget_absent_leaving() {
  if (leaving_.empty()) return;
  std::set<std::uint64_t> present;
  for (const auto& [key, participant] : participants_) {
    if (!participant.lost) present.insert(participant.session);
  }
  std::erase_if(leaving_, [&present](std::uint64_t one) { return !present.contains(one); });
}

void Registry::avoid(std::uint64_t session) {
  if (avoided_.insert(session).second) ++changes_;
}

std::string Registry::loss_of(pb::Role role, const std::string& name,
                              Incarnation incarnation) const {
  const Participant* known = find(role, name);
  if (known != nullptr && known->incarnation == incarnation) return known->lost_reason;
  return fmt::format("{} \"{}\" is a new process; the old one ended",
                     role == pb::ROLE_SERVER ? "server" : "worker", name);
}

}  // namespace taut
