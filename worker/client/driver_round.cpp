#include <fmt/format.h>

#include <utility>

#include "common/timeline.hpp"
#include "worker/client/client_driver.hpp"

namespace taut {
namespace {

constexpr Duration kTick{10'000};
constexpr int kAnswersAtOnce = 64;
constexpr std::size_t kCopiedAtOnce = 256UL << 10U;

}  // namespace

/// Sends what is due, and handles what arrives, waiting for it up to `patience`. Bytes are sent,
/// received and decoded without the lock. REQUIRES: the lock, and the lead.
void ClientDriver::round(std::unique_lock<std::mutex>& lock, Leader leader, Duration patience) {
  drain();
  for (const ShardAddress& shard : std::exchange(moves_, {})) move(shard);
  while (protocol_.has_outgoing()) {
    auto outgoing = protocol_.take_outgoing(time_.now());
    if (outgoing.empty()) break;
    lock.unlock();
    for (auto& [shard, message] : outgoing) {
      const timeline::Span span(timeline::Row::kPush, "send");
      connections_.send(shard, message);
      ++figures_.messages_out;
    }
    lock.lock();
    drain();
  }
  if (stopping_) return;
  // A caller that waits for the lead gets it at once, and one that is cancelled waits for nothing.
  if (leader == Leader::kThread ? caller_waits_ : cancelled_) patience = Duration::zero();
  {
    // A request, or a caller that needs the lead, wakes the endpoint after this mark; before it, it
    // is seen here.
    std::scoped_lock inbox(inbox_mutex_);
    if (!inbox_.empty()) patience = Duration::zero();
    asleep_ = patience > Duration::zero();
  }
  lock.unlock();
  auto incoming = endpoint_->receive(patience);
  {
    std::scoped_lock inbox(inbox_mutex_);
    asleep_ = false;
  }
  // Messages that are queued already belong to the same round of answers.
  for (int i = 0; incoming && i < kAnswersAtOnce; ++i) {
    take(*incoming);
    incoming = endpoint_->receive(Duration::zero());
  }
  if (incoming) take(*incoming);
  connections_.forget_returned_links();
  const TimePoint now = time_.now();
  const bool is_due = now - last_tick_ >= kTick;
  std::optional<Error> refused;
  if (is_due) refused = connections_.refusal();
  lock.lock();
  if (is_due) {
    refused_ = std::move(refused);
    last_tick_ = now;
    protocol_.tick(now);
    resent_ = protocol_.resent();
  }
  collect();
  room_ = protocol_.room();
  note_load();
}

void ClientDriver::take(const Incoming& incoming) {
  auto received = connections_.decode(incoming);
  if (!received) return;
  auto& [shard, message] = *received;
  ++figures_.messages_in;
  if (connections_.agree_on_memory(shard, message)) {
    std::scoped_lock lock(mutex_);
    protocol_.share_memory(shard);
    shares_memory_ = true;
  }
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    for (const DataItem& item : batch->items) {
      received_ += item.payload.size();
      if (item.encoding == math::Encoding() || item.payload_lost) continue;
      received_saved_ += spared(item.count * sizeof(float), item.payload.size());
    }
  }
  const timeline::Span span(timeline::Row::kCopy, "receive");
  hand_over(shard, std::move(message));
}

/// Gives the protocol a message's items in parts, so that no thread waits long for the lock while
/// values are copied.
void ClientDriver::hand_over(ShardId shard, DataMessage message) {
  auto* batch = std::get_if<DataItems>(&message.body);
  if (batch == nullptr) {
    std::scoped_lock lock(mutex_);
    protocol_.handle(shard, message, time_.now());
    return;
  }
  std::vector<DataItem> items = std::exchange(batch->items, {});
  std::size_t bytes = 0;
  for (DataItem& item : items) {
    const bool is_last = &item == &items.back();
    bytes += item.payload.size();
    batch->items.push_back(std::move(item));
    if (bytes < kCopiedAtOnce && !is_last) continue;
    std::scoped_lock lock(mutex_);
    protocol_.handle(shard, message, time_.now());
    batch->items.clear();
    bytes = 0;
  }
}

void ClientDriver::collect() {
  for (const CompletedRead& read : protocol_.take_completed()) {
    (read.snapshot ? snapshots_ : reads_)[read.table.value()] = read;
    if (read.snapshot) continue;
    if (notify_) notify_(read.table, read.clock);
    if (!timeline::is_on()) continue;
    const auto requested = requested_.find(read.table);
    if (requested == requested_.end()) continue;
    timeline::add_overlapping(timeline::Row::kPull, fmt::format("table {}", read.table.value()),
                              read.table.value(), requested->second, time_.now(),
                              read.clock.value());
    requested_.erase(requested);
  }
}

/// REQUIRES: the lock, and the lead.
void ClientDriver::note_load() {
  if (load_ == nullptr) return;
  protocol_.describe(figures_);
  load_->note(figures_);
}

}  // namespace taut
