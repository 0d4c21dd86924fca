#include "worker/client/client_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/affinity.hpp"
#include "common/check.hpp"
#include "common/log.hpp"
#include "common/timeline.hpp"
#include "proto/shared_handshake.hpp"

namespace taut {
namespace {

constexpr Duration kIdle{100'000};
constexpr Duration kTick{10'000};
// A caller that has just waited waits again soon where answers are small: for so long the thread
// does not take the lead from it.
constexpr Duration kCallersTurn{300};
constexpr Duration kLongWait{30'000'000};
constexpr int kAnswersAtOnce = 64;
constexpr std::size_t kCopiedAtOnce = 256UL << 10U;
constexpr Bytes kKeptBytes{1ULL << 30U};
constexpr std::size_t kOldLinks = 16;

std::vector<ShardId> shard_ids(const ClientOptions& options) {
  std::vector<ShardId> ids;
  for (const ShardAddress& shard : options.shards) ids.push_back(shard.shard);
  return ids;
}

std::shared_ptr<BufferAllocator> allocator_of(const ClientOptions& options) {
  if (options.shared_memory) return options.shared_memory;
  return options.update_memory ? options.update_memory : host_allocator();
}

}  // namespace

ClientDriver::ClientDriver(std::unique_ptr<Endpoint> endpoint, ClientOptions options)
    : endpoint_(std::move(endpoint)),
      arena_(options.shared_memory),
      pool_(kKeptBytes, allocator_of(options)),
      load_(options.load),
      protocol_(
          {options.job, options.worker, options.incarnation, options.job_hash, options.replicated},
          shard_ids(options), options.resend, options.send) {
  for (const ShardAddress& shard : options.shards) {
    connect(shard);
    (void)protocol_.move(shard.shard, shard.term, steady_now());
  }
  thread_ = std::thread([this] { run(); });
}

void ClientDriver::connect(const ShardAddress& shard) {
  auto peer = endpoint_->connect(shard.address);
  if (!peer) throw std::runtime_error(peer.error().message);
  shard_of_[peer.value()] = shard.shard;
  peer_of_[shard.shard] = peer.value();
  address_of_[shard.shard] = shard.address;
}

void ClientDriver::move_shards(std::vector<ShardAddress> shards) {
  {
    std::scoped_lock lock(mutex_);
    moves_.insert(moves_.end(), shards.begin(), shards.end());
  }
  wake_leader();
}

/// REQUIRES: the lock, and the lead.
void ClientDriver::move(const ShardAddress& shard) {
  if (!protocol_.move(shard.shard, shard.term, steady_now())) return;
  log::info("shard {} is served at {} from now on, term {}", shard.shard.value(), shard.address,
            shard.term);
  const auto old = peer_of_.find(shard.shard);
  endpoint_->disconnect(old->second);
  shard_of_.erase(old->second);
  if (auto link = links_.extract(shard.shard); !link.empty()) {
    moved_links_.emplace(shard.shard, std::move(link.mapped()));
  }
  try {
    connect(shard);
  } catch (const std::runtime_error& failure) {
    // Reads fail when their wait has passed, and name the address.
    log::warn("shard {}: {}", shard.shard.value(), failure.what());
  }
}

void ClientDriver::close() {
  {
    std::scoped_lock lock(mutex_);
    cancelled_ = true;
    stopping_ = true;
    changed_.notify_all();
  }
  wake_leader();
  if (thread_.joinable()) thread_.join();
  // Shards may still use updates in that memory.
  if (arena_) arena_->abandon();
}

void ClientDriver::cancel() {
  {
    std::scoped_lock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }
  wake_leader();
}

void ClientDriver::wake_leader() {
  {
    std::scoped_lock lock(inbox_mutex_);
    if (!std::exchange(asleep_, false)) return;
  }
  endpoint_->wake();
}

void ClientDriver::post(Request request) {
  {
    std::scoped_lock lock(inbox_mutex_);
    inbox_.push_back(std::move(request));
    if (!std::exchange(asleep_, false)) return;
  }
  endpoint_->wake();
}

void ClientDriver::open(std::vector<TableSpec> tables) {
  post({Request::Kind::kOpen, {}, {}, {}, {}, std::move(tables)});
}

void ClientDriver::push(TableId table, Clock clock, const Buffer& gradient, float norm) {
  pushed_ += gradient.size();
  post({Request::Kind::kPush, table, {clock, Frame(gradient), norm}, {}, {}, {}});
}

void ClientDriver::push_and_read(TableId table, Clock clock, const Buffer& gradient,
                                 std::span<float> into, float norm) {
  pushed_ += gradient.size();
  post({Request::Kind::kPushRead, table, {clock, Frame(gradient), norm}, {}, into, {}});
}

void ClientDriver::read(TableId table, Clock clock, std::span<float> into) {
  post({Request::Kind::kRead, table, {clock, {}, 0}, {}, into, {}});
}

void ClientDriver::on_read(Client::OnRead notify) {
  std::scoped_lock lock(mutex_);
  notify_ = std::move(notify);
}

void ClientDriver::snapshot(TableId table, const Buffer& values) {
  post({Request::Kind::kSnapshot, table, {}, values, {}, {}});
}

/// REQUIRES: the lock.
void ClientDriver::drain() {
  std::vector<Request> requests;
  {
    std::scoped_lock lock(inbox_mutex_);
    requests.swap(inbox_);
  }
  for (Request& request : requests) obey(request);
}

void ClientDriver::obey(Request& request) {
  const TableId table = request.table;
  switch (request.kind) {
    case Request::Kind::kOpen:
      reads_.assign(request.tables.size(),
                    CompletedRead{TableId(), Clock(-1), Clock(-1), false, true});
      snapshots_.assign(request.tables.size(),
                        CompletedRead{TableId(), Clock(-1), Clock(-1), true, true});
      snapshot_memory_.assign(request.tables.size(), Buffer());
      protocol_.open(std::move(request.tables));
      break;
    case Request::Kind::kPush:
      protocol_.push(table, request.update);
      break;
    case Request::Kind::kPushRead:
      // The read is first: the protocol joins it to the push that it follows.
      protocol_.read(table, request.update.clock.next(), request.into);
      note_read(table);
      protocol_.push(table, request.update);
      break;
    case Request::Kind::kRead:
      // A read that is requested again has not completed, even if one at the same clock has.
      reads_[table.value()].clock = Clock(-1);
      protocol_.read(table, request.update.clock, request.into);
      note_read(table);
      break;
    case Request::Kind::kSnapshot:
      snapshots_[table.value()].clock = Clock(-1);
      protocol_.snapshot(table, request.memory.floats());
      snapshot_memory_[table.value()] = std::move(request.memory);
      break;
  }
}

void ClientDriver::note_read(TableId table) {
  if (timeline::is_on()) requested_[table] = steady_now();
}

/// REQUIRES: the lock, and the lead.
void ClientDriver::note_load() {
  protocol_.describe(figures_);
  load_->note(figures_);
}

template <class Done, class Describe>
Result<void> ClientDriver::await(Duration wait, const Done& done, const Describe& what) {
  std::unique_lock lock(mutex_);
  drain();
  if (done()) return ok();
  const TimePoint begin = steady_now();
  TimePoint deadline = begin + wait;
  TimePoint report_at = begin + kLongWait;
  std::optional<ClientProtocol::Silence> silence;
  caller_waits_ = true;
  // Once the tables are open, who refuses may be a process that has taken a shard's port.
  const auto is_refused = [this] { return refused_ && !protocol_.ready(); };
  while (!done() && !cancelled_ && !protocol_.failure() && !is_refused()) {
    const TimePoint now = steady_now();
    if (now >= deadline) {
      silence = protocol_.longest_silence();
      if (silence) deadline = std::max(begin, silence->since.value_or(begin)) + wait;
      if (now >= deadline) break;
    }
    if (now >= report_at) {
      log::warn("{} has waited for {:.0f} s", what(), seconds(now - begin));
      report_at = now + kLongWait;
    }
    const Duration left = deadline - now;
    if (led_) {
      // The thread has the lead: it hands it over.
      wake_leader();
      changed_.wait_for(lock, std::min(left, kIdle));
      continue;
    }
    led_ = true;
    round(lock, Leader::kCaller, std::min(left, kIdle));
    led_ = false;
  }
  caller_waits_ = false;
  callers_until_ = steady_now() + kCallersTurn;
  if (done()) return ok();
  if (cancelled_) return make_error(ErrorCode::kClosed, what() + ": the client was closed");
  if (protocol_.failure()) return *protocol_.failure();
  if (is_refused()) return *refused_;
  if (!silence) {
    return make_error(ErrorCode::kTimeout,
                      fmt::format("{} took longer than {:.1f} s", what(), seconds(wait)));
  }
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("{}: shard {} at {} has not answered for {:.1f} s", what(),
                  silence->shard.value(), address_of_.at(silence->shard), seconds(wait)));
}

Result<void> ClientDriver::await_open(Duration wait) {
  return await(
      wait, [this] { return protocol_.ready(); },
      [] { return std::string("opening the tables at the shards"); });
}

Result<CompletedRead> ClientDriver::await_read(TableId table, Clock clock, Duration wait) {
  TAUT_TRY(await(
      wait, [&] { return reads_[table.value()].clock == clock; },
      [&] {
        const auto whom = protocol_.read_waits_for(table);
        return fmt::format("the read of table {} at clock {}{}", table.value(), clock.value(),
                           whom ? fmt::format(", for worker {}'s update", whom->value()) : "");
      }));
  std::scoped_lock lock(mutex_);
  return reads_[table.value()];
}

Result<CompletedRead> ClientDriver::await_snapshot(TableId table, Duration wait) {
  TAUT_TRY(await(
      wait, [&] { return snapshots_[table.value()].clock != Clock(-1); },
      [&] { return fmt::format("the snapshot of table {}", table.value()); }));
  std::scoped_lock lock(mutex_);
  return snapshots_[table.value()];
}

Result<void> ClientDriver::await_acknowledged(std::size_t at_most, Duration wait) {
  if (at_most == 0) {
    std::scoped_lock lock(mutex_);
    drain();
    protocol_.settle();
  }
  return await(
      wait,
      [&] {
        return at_most == 0 ? protocol_.unsettled() == 0 : protocol_.unacknowledged() <= at_most;
      },
      [] { return std::string("the acknowledgement of updates"); });
}

void ClientDriver::run() {
  follow_main_thread();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = steady_now();
    if (led_ || caller_waits_) {
      changed_.wait_for(lock, kCallersTurn);
    } else if (now < callers_until_) {
      changed_.wait_for(lock, callers_until_ - now);
    } else {
      led_ = true;
      round(lock, Leader::kThread, kIdle);
      led_ = false;
      if (caller_waits_) changed_.notify_all();
    }
  }
}

/// Sends what is to be sent, and takes what comes, waiting for it up to `patience`. Bytes are sent,
/// received and decoded without the lock. REQUIRES: the lock, and the lead.
void ClientDriver::round(std::unique_lock<std::mutex>& lock, Leader leader, Duration patience) {
  drain();
  for (const ShardAddress& shard : std::exchange(moves_, {})) move(shard);
  while (protocol_.has_outgoing()) {
    auto outgoing = protocol_.take_outgoing(steady_now());
    if (outgoing.empty()) break;
    lock.unlock();
    for (auto& [shard, message] : outgoing) {
      const timeline::Span span(timeline::Row::kPush, "send");
      send(shard, message);
    }
    lock.lock();
    drain();
  }
  if (stopping_) return;
  // A caller who waits for the lead gets it at once, and one that is cancelled waits for nothing.
  if (leader == Leader::kThread ? caller_waits_ : cancelled_) patience = Duration::zero();
  {
    // A request, or a wish for the lead, that comes after this mark wakes the endpoint; one before
    // it is seen here.
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
  // What else is queued there already belongs to the same round of answers.
  for (int i = 0; incoming && i < kAnswersAtOnce; ++i) {
    take(*incoming);
    incoming = endpoint_->receive(Duration::zero());
  }
  if (incoming) take(*incoming);
  forget_returned_links();
  auto refused = refusal();
  lock.lock();
  refused_ = std::move(refused);
  if (const TimePoint now = steady_now(); now - last_tick_ >= kTick) {
    last_tick_ = now;
    protocol_.tick(now);
  }
  collect();
  note_load();
}

/// REQUIRES: the lead.
std::optional<Error> ClientDriver::refusal() const {
  for (const auto& [peer, shard] : shard_of_) {
    const auto refused = endpoint_->refusal(peer);
    if (!refused || !refused->is_final) continue;
    return make_error(ErrorCode::kUnavailable, fmt::format("shard {} at {} {}", shard.value(),
                                                           address_of_.at(shard), refused->reason));
  }
  return std::nullopt;
}

SharedLink* ClientDriver::link_of(ShardId shard) {
  const auto found = links_.find(shard);
  if (found == links_.end() || !found->second->is_open()) return nullptr;
  found->second->collect();
  return found->second.get();
}

void ClientDriver::send(ShardId shard, DataMessage& message) {
  if (auto* hello = std::get_if<pb::DataHello>(&message.body);
      hello != nullptr && arena_ && old_links_.size() < kOldLinks) {
    try {
      auto& link = links_[shard];
      if (!link) link = std::make_unique<SharedLink>(arena_);
      *hello->mutable_shared_memory() = to_wire(link->offer());
    } catch (const std::bad_alloc&) {
      links_.erase(shard);
      log::warn("shard {}: payloads travel as bytes: no shared memory is left", shard.value());
    }
  }
  SharedLink* link = link_of(shard);
  if (auto* requested = std::get_if<pb::OpenTables>(&message.body)) {
    requested->set_shares_memory(link != nullptr);
  }
  const std::uint64_t lent = link == nullptr ? 0 : link->lent_so_far();
  ++figures_.messages_out;
  // What cannot be sent now is sent again when its time has passed.
  if (auto sent = endpoint_->send(peer_of_[shard], encode(message, link)); !sent) {
    log::debug("shard {}: {}", shard.value(), sent.error().message);
    if (link != nullptr) link->undo_since(lent);
  }
}

/// A shard that could map this side's memory offers its own. Each connection agrees again.
void ClientDriver::agree_on_memory(ShardId shard, const DataMessage& message) {
  const auto* reply = std::get_if<pb::DataHelloReply>(&message.body);
  const auto found = links_.find(shard);
  if (reply == nullptr || found == links_.end()) return;
  if (reply->greet_again() && found->second->is_open()) {
    old_links_.push_back(std::move(found->second));
    links_.erase(found);
    return;
  }
  if (!reply->has_shared_memory()) return;
  SharedLink& link = *found->second;
  const auto offer = from_wire(reply->shared_memory());
  if (link.is_open() || !offer) return;
  if (auto opened = link.open(offer.value()); !opened) {
    log::debug("shard {}: payloads travel as bytes: {}", shard.value(), opened.error().message);
    return;
  }
  link.start();
  std::scoped_lock lock(mutex_);
  protocol_.share_memory(shard);
}

/// A read that the new host of a shard answers shows that every member speaks to it.
void ClientDriver::forget_moved_link(ShardId shard, const DataMessage& message) {
  if (moved_links_.empty()) return;
  const auto* batch = std::get_if<DataItems>(&message.body);
  const bool answers_read = batch != nullptr && std::ranges::any_of(batch->items, [](auto& item) {
                              return item.kind == pb::DataItem::VALUE;
                            });
  if (answers_read) moved_links_.erase(shard);
}

void ClientDriver::take(const Incoming& incoming) {
  const auto known = shard_of_.find(incoming.from);
  if (known == shard_of_.end()) return;  // a host that was left
  const ShardId shard = known->second;
  auto message = decode_data(incoming.message, link_of(shard));
  if (!message) {
    log::warn("dropped a message from shard {}: {}", shard.value(), message.error().message);
    return;
  }
  ++figures_.messages_in;
  agree_on_memory(shard, message.value());
  forget_moved_link(shard, message.value());
  if (const auto* batch = std::get_if<DataItems>(&message.value().body)) {
    for (const DataItem& item : batch->items) received_ += item.payload.size();
  }
  const timeline::Span span(timeline::Row::kCopy, "receive");
  hand_over(shard, std::move(message.value()));
}

/// Gives the protocol a message's items in parts, so that no thread waits long for the lock while
/// values are copied.
void ClientDriver::hand_over(ShardId shard, DataMessage message) {
  auto* batch = std::get_if<DataItems>(&message.body);
  if (batch == nullptr) {
    std::scoped_lock lock(mutex_);
    protocol_.handle(shard, message, steady_now());
    return;
  }
  std::vector<DataItem> items = std::exchange(batch->items, {});
  std::size_t bytes = 0;
  for (DataItem& item : items) {
    bytes += item.payload.size();
    batch->items.push_back(std::move(item));
    if (bytes < kCopiedAtOnce && &item != &items.back()) continue;
    std::scoped_lock lock(mutex_);
    protocol_.handle(shard, message, steady_now());
    batch->items.clear();
    bytes = 0;
  }
}

/// Loans of broken connections return as those of working ones do.
void ClientDriver::forget_returned_links() {
  std::erase_if(old_links_, [](const std::unique_ptr<SharedLink>& link) {
    link->collect();
    return link->on_loan() == 0;
  });
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
                              read.table.value(), requested->second, steady_now(),
                              read.clock.value());
    requested_.erase(requested);
  }
}

}  // namespace taut
