#include "common/net/faulty_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace taut {
namespace {

constexpr std::size_t kMaxHeld = EndpointLimits().queued_messages;

}  // namespace

FaultyEndpoint::FaultyEndpoint(std::unique_ptr<Endpoint> inner, LinkFaults faults,
                               std::uint64_t seed, Now now)
    : inner_(std::move(inner)), faults_(faults), random_(seed), now_(std::move(now)) {}

FaultyEndpoint::~FaultyEndpoint() {
  for (Delayed& delayed : outgoing_) {
    [[maybe_unused]] const auto sent = inner_->send(delayed.peer, std::move(delayed.message));
  }
}

bool FaultyEndpoint::lost() {
  return faults_.loss > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < faults_.loss;
}

void FaultyEndpoint::hold(std::deque<Delayed>& queue, Incoming message) {
  std::uniform_int_distribution<Duration::rep> jitter(0, faults_.jitter.count());
  TimePoint due = now_() + faults_.delay + Duration(jitter(random_));
  if (!queue.empty()) due = std::max(due, queue.back().due);
  queue.push_back({due, message.from, std::move(message.message), std::move(message.sender),
                   std::move(message.scope)});
}

void FaultyEndpoint::disconnect(PeerId peer) {
  std::erase_if(outgoing_, [peer](const Delayed& delayed) { return delayed.peer == peer; });
  std::erase_if(incoming_, [peer](const Delayed& delayed) { return delayed.peer == peer; });
  inner_->disconnect(peer);
}

Result<void> FaultyEndpoint::send(PeerId to, Message message) {
  send_due();
  if (outgoing_.size() >= kMaxHeld) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} messages wait in the slow network", outgoing_.size()));
  }
  if (!lost()) hold(outgoing_, {to, std::move(message)});
  return ok();
}

void FaultyEndpoint::send_due() {
  while (!outgoing_.empty() && outgoing_.front().due <= now_()) {
    // If the peer has disconnected, that is equivalent to a lost message.
    [[maybe_unused]] const auto sent =
        inner_->send(outgoing_.front().peer, std::move(outgoing_.front().message));
    outgoing_.pop_front();
  }
}

void FaultyEndpoint::take(Incoming arrived) {
  if (lost() || incoming_.size() >= kMaxHeld) return;
  hold(incoming_, std::move(arrived));
}

void FaultyEndpoint::wake() {
  // The inner endpoint drops a wake-up when it is polled for messages already received.
  woken_ = true;
  inner_->wake();
}

std::optional<Incoming> FaultyEndpoint::receive(Duration wait) {
  const TimePoint until = now_() + wait;
  while (true) {
    send_due();
    // All received messages are taken at once, so that their delay starts now.
    while (auto arrived = inner_->receive(Duration::zero())) take(std::move(*arrived));
    const TimePoint now = now_();
    if (!incoming_.empty() && incoming_.front().due <= now) {
      Delayed& first = incoming_.front();
      Incoming due{first.peer, std::move(first.message), std::move(first.sender),
                   std::move(first.scope)};
      incoming_.pop_front();
      return due;
    }
    if (woken_.exchange(false) || now >= until) return std::nullopt;
    TimePoint next = until;
    if (!outgoing_.empty()) next = std::min(next, outgoing_.front().due);
    if (!incoming_.empty()) next = std::min(next, incoming_.front().due);
    if (next <= now) continue;
    if (auto arrived = inner_->receive(next - now)) take(std::move(*arrived));
  }
}

}  // namespace taut
