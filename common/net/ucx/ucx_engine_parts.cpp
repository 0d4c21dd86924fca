// The parts that an engine receives and sends.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "common/log.hpp"
#include "common/net/ucx/ucx_engine.hpp"

namespace taut {
namespace {

// Bytes of large frames that one connection fetches at a time.
constexpr std::uint64_t kFetchedAtOnce = 64ULL << 20U;
// Messages of one connection behind an incomplete one: an honest peer has far fewer.
constexpr std::size_t kMaxAssemblies = 65536;
constexpr std::uint64_t kMaxKept = 1ULL << 30U;
constexpr std::size_t kMaxPostponed = 65536;
// The time that a refused caller has to read why.
constexpr Duration kReadsRefusal = std::chrono::seconds(1);

/// The limit on the bytes of a message that arrives: where few messages may wait, that of one
/// frame; as with ZeroMQ.
std::uint64_t max_message(const EndpointLimits& limits) {
  const bool is_limited = limits.arrived_messages < limits.queued_messages;
  return is_limited ? limits.frame.value() : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

ucs_status_t UcxEngine::take_part(std::span<const std::byte> header, void* data, std::size_t bytes,
                                  bool is_large, ucp_ep_h from) {
  const auto received = read_ucx_part(header);
  if (!received) {
    if (const UcxConnection* const sender = find(from)) lose_later(*sender, "it sends other bytes");
    return UCS_OK;
  }
  const UcxPart& part = received->part;
  if (part.kind == UcxPartKind::kHello) {
    take_hello(*received, from);
    return UCS_OK;
  }
  const auto named = by_own_.find(part.connection);
  UcxConnection* const connection = named == by_own_.end() ? nullptr : find(named->second);
  if (connection == nullptr || connection->handle == nullptr) return UCS_OK;  // it is gone
  if (part.kind == UcxPartKind::kRefused) {
    if (connection->state == State::kGreeting && connection->peer) {
      mailbox_.note_refusal(
          connection->number,
          Refusal{true,
                  "does not accept this process's secret: its key was revoked, or that process "
                  "belongs to another cluster"});
      lose_later(*connection, "it refuses this side");
    }
    return UCS_OK;
  }
  // The secret proves the sender: the library does not check what a message claims about it.
  const Frame secret({}, received->secret);
  if (!same_secret(secret, connection->expected_secret)) {
    mailbox_.note_unadmitted();
    return UCS_OK;
  }
  if (part.kind == UcxPartKind::kWelcome) {
    take_welcome(*connection, part);
    return UCS_OK;
  }
  if (connection->state != State::kOpen) return UCS_OK;
  return take_data(*connection, part, data, bytes, is_large);
}

/// The peer that a caller's secret proves; nullptr if it proves none.
std::shared_ptr<UcxPeer> UcxEngine::prove(const ReceivedPart& hello, UcxConnection& caller) {
  auto peer = std::make_shared<UcxPeer>();
  peer->id = caller.number;
  if (settings_.tokens == nullptr) return peer;
  const auto scope = settings_.tokens->check(hello.secret);
  if (!scope || settings_.admission->find(scope->public_key) == nullptr) return nullptr;
  peer->key = scope->public_key;
  peer->scope = std::make_shared<const TokenScope>(*scope);
  std::erase_if(bytes_of_key_, [](const auto& one) { return one.second.expired(); });
  auto& known = bytes_of_key_[peer->key];
  peer->key_bytes = known.lock();
  if (!peer->key_bytes) {
    peer->key_bytes = std::make_shared<UcxPeer::Count>(0);
    known = peer->key_bytes;
  }
  caller.expected_secret = Frame::copy_of(hello.secret);
  caller.own_secret = settings_.tokens->make(*scope).answer();
  return peer;
}

void UcxEngine::take_hello(const ReceivedPart& hello, ucp_ep_h from) {
  UcxConnection* const caller = find(from);
  const bool is_first = caller != nullptr && caller->address.empty() &&
                        caller->state == State::kGreeting && caller->remote == 0;
  if (!is_first) return;
  caller->remote = hello.part.connection;
  auto peer = prove(hello, *caller);
  if (!peer) {
    log::debug("a caller has no secret that is admitted");
    send_part(*caller, {.kind = UcxPartKind::kRefused, .connection = caller->remote});
    caller->due = steady_now() + kReadsRefusal;
    be_due(caller->due);
    return;
  }
  caller->peer = peer;
  caller->state = State::kOpen;
  mailbox_.note_caller(std::move(peer));
  send_part(*caller,
            {.kind = UcxPartKind::kWelcome, .connection = caller->remote, .sequence = caller->own});
}

void UcxEngine::take_welcome(UcxConnection& connection, const UcxPart& welcome) {
  const bool is_awaited =
      connection.state == State::kGreeting && connection.peer && connection.peer->is_dialed;
  if (!is_awaited) return;
  connection.remote = welcome.sequence;
  connection.state = State::kOpen;
  mailbox_.note_refusal(connection.number, std::nullopt);
  for (const auto& outgoing : std::exchange(connection.waiting, {})) {
    send_now(connection, outgoing);
  }
}

ucs_status_t UcxEngine::take_data(UcxConnection& connection, const UcxPart& part, void* data,
                                  std::size_t bytes, bool is_large) {
  connection.last_heard = ++heard_;
  const EndpointLimits& limits = settings_.limits;
  const std::uint64_t most = part.kind == UcxPartKind::kFrame
                                 ? limits.frame.value()
                                 : limits.frames * (sizeof(std::uint64_t) + kSeparateFrom);
  const bool is_old = part.sequence < connection.next_in;
  const bool is_too_large = bytes > most;
  const bool has_room = connection.assemblies.size() < kMaxAssemblies &&
                        connection.kept + bytes <= kMaxKept &&
                        connection.postponed.size() < kMaxPostponed;
  if (is_old || is_too_large || !has_room) {
    lose_later(connection, is_too_large ? "a frame is larger than the limit"
                                        : "its messages do not follow each other");
    return UCS_OK;
  }
  try {
    return take_place(connection, part, data, bytes, is_large);
  } catch (const std::bad_alloc&) {
    lose_later(connection, "no memory is left for its messages");
    return UCS_OK;
  }
}

/// REQUIRES: the part is within the limits.
/// Throws std::bad_alloc.
ucs_status_t UcxEngine::take_place(UcxConnection& connection, const UcxPart& part, void* data,
                                   std::size_t bytes, bool is_large) {
  if (!is_large) {
    const Buffer copy = pool_.acquire(bytes);
    if (bytes > 0) std::memcpy(copy.data(), data, bytes);
    assemble(connection, part, copy);
    return UCS_OK;
  }
  if (!connection.postponed.empty() ||
      (connection.fetched > 0 && connection.fetched + bytes > kFetchedAtOnce)) {
    connection.postponed.push_back({part, data, bytes});
  } else {
    fetch(connection, part, data, bytes);
  }
  return UCS_INPROGRESS;
}

void UcxEngine::fetch(UcxConnection& connection, const UcxPart& part, void* data,
                      std::size_t bytes) {
  Buffer into = pool_.acquire(bytes);
  connection.fetched += bytes;
  const std::uint64_t number = connection.number.value();
  const ucp_ep_h handle = connection.handle;
  worker_->receive(data, into.bytes(), [=, this](bool is_whole) {
    UcxConnection* const still = find(number);
    if (still == nullptr || still->handle != handle) return;
    still->fetched -= bytes;
    if (!is_whole) {
      lose_later(*still, "a frame did not arrive");
      return;
    }
    assemble(*still, part, into);
    fetch_postponed(*still);
  });
}

void UcxEngine::fetch_postponed(UcxConnection& connection) {
  while (!connection.postponed.empty()) {
    const auto next = connection.postponed.front();
    if (connection.fetched > 0 && connection.fetched + next.bytes > kFetchedAtOnce) return;
    connection.postponed.pop_front();
    try {
      fetch(connection, next.part, next.data, next.bytes);
    } catch (const std::bad_alloc&) {
      worker_->drop(next.data);
      lose_later(connection, "no memory is left for its messages");
      return;
    }
  }
}

void UcxEngine::assemble(UcxConnection& connection, const UcxPart& part, const Buffer& data) {
  const EndpointLimits& limits = settings_.limits;
  UcxAssembly& message =
      connection.assemblies.try_emplace(part.sequence, max_message(limits)).first->second;
  const std::uint64_t before = message.bytes();
  const auto taken = part.kind == UcxPartKind::kFrame
                         ? message.take_frame(part.frames, Frame(data))
                         : message.take_body(part, data, limits.frames, limits.frame.value());
  connection.kept += message.bytes() - before;
  if (!taken) {
    lose_later(connection, taken.error().message);
    return;
  }
  deliver(connection);
}

/// Delivers the messages that are complete, in their order.
void UcxEngine::deliver(UcxConnection& connection) {
  auto next = connection.assemblies.begin();
  while (next != connection.assemblies.end() && next->first == connection.next_in &&
         next->second.is_complete()) {
    connection.kept -= next->second.bytes();
    if (!next->second.is_dropped()) mailbox_.put(connection.peer, next->second.take());
    next = connection.assemblies.erase(next);
    ++connection.next_in;
  }
}

void UcxEngine::send_part(UcxConnection& connection, const UcxPart& part,
                          std::span<const std::byte> data, std::shared_ptr<const void> keeps,
                          bool is_large) {
  const bool is_refusal = part.kind == UcxPartKind::kRefused;
  const auto secret = is_refusal ? std::span<const std::byte>() : connection.own_secret.bytes();
  const bool is_hello = part.kind == UcxPartKind::kHello;
  if (!worker_->send(connection.handle, part.with(secret), data, std::move(keeps), is_large,
                     is_hello)) {
    lose_later(connection, "nothing can be sent there");
  }
}

void UcxEngine::send_now(UcxConnection& connection, const std::shared_ptr<UcxOutgoing>& outgoing) {
  const Message& message = outgoing->message;
  const auto separate = std::ranges::count_if(
      message.frames, [](const Frame& frame) { return is_separate_frame(frame.size()); });
  const std::uint64_t sequence = connection.next_out++;
  struct Kept {
    Buffer body;
    std::shared_ptr<UcxOutgoing> outgoing;
  };
  auto kept = std::make_shared<Kept>(Kept{ucx_body(message, pool_), outgoing});
  const std::span<const std::byte> body = kept->body.bytes();
  send_part(connection,
            {.kind = UcxPartKind::kMessage,
             .frames = static_cast<std::uint32_t>(message.frames.size()),
             .separate = static_cast<std::uint32_t>(separate),
             .connection = connection.remote,
             .sequence = sequence},
            body, std::move(kept));
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    const Frame& frame = message.frames[i];
    if (!is_separate_frame(frame.size())) continue;
    send_part(connection,
              {.kind = UcxPartKind::kFrame,
               .frames = static_cast<std::uint32_t>(i),
               .connection = connection.remote,
               .sequence = sequence},
              frame.bytes(), outgoing, true);
  }
}

}  // namespace taut
