#include "worker/client/client_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/system/affinity.hpp"
#include "common/timeline.hpp"

namespace taut {
namespace {

constexpr Duration kIdle{100'000};
constexpr Duration kTick{10'000};
// A caller that has just waited waits again soon where answers are small: for so long the thread
// does not take the lead from it.
constexpr Duration kCallersTurn{300};
constexpr Duration kLongWait{30'000'000};
constexpr Duration kForever = Duration::max();
constexpr int kAnswersAtOnce = 64;
// Of a table: what moves at 1 GB/s in some 30 us, which waking a message's four threads is supposed
// to take.
constexpr std::size_t kSmallUpdate = 32UL << 10U;
constexpr std::size_t kCopiedAtOnce = 256UL << 10U;
constexpr Bytes kKeptBytes{1ULL << 30U};
// Bytes of initial values that a shard makes at least, on a machine that is busy: it answers
// nothing while it makes them. A server that is lost is noticed by the coordinator meanwhile.
constexpr double kMadeInASecond = 16.0 * (1U << 20U);

/// What an encoding has spared; nothing where it is longer, as INT8 is of a single value.
std::uint64_t spared(std::uint64_t bytes, std::uint64_t encoded) {
  return bytes > encoded ? bytes - encoded : 0;
}

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

ClientDriver::ClientDriver(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options)
    : time_(options.time == nullptr ? machine_time() : *options.time),
      has_thread_(options.own_thread),
      endpoint_(std::move(endpoint)),
      connections_(*endpoint_, options.shared_memory, options.pinning),
      pool_(options.pool ? options.pool
                         : std::make_shared<BufferPool>(kKeptBytes, allocator_of(options))),
      load_(options.load),
      shards_(shard_ids(options)),
      encoder_(options.encoding),
      weight_(options.weight),
      protocol_({options.job, options.worker, options.incarnation, options.job_hash,
                 options.replicated, options.max_kept},
                shards_, options.resend, options.send) {
  for (const ShardAddress& shard : options.shards) {
    if (auto connected = connections_.connect(shard); !connected) {
      throw std::runtime_error(connected.error().message);
    }
    (void)protocol_.move(shard.shard, shard.term, time_.now());
  }
  if (has_thread_) {
    thread_ = std::thread([this] { run(); });
  } else {
    expect_work();
  }
}

/// The next request wakes the endpoint, whose owner then calls work().
void ClientDriver::expect_work() {
  std::scoped_lock lock(inbox_mutex_);
  asleep_ = true;
}

void ClientDriver::work() {
  std::unique_lock lock(mutex_);
  if (led_ || stopping_) return;
  led_ = true;
  round(lock, Leader::kThread, Duration::zero());
  led_ = false;
  expect_work();
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
  if (!protocol_.move(shard.shard, shard.term, time_.now())) return;
  log::info("shard {} is served at {} from now on, term {}", shard.shard.value(), shard.address,
            shard.term);
  // Where this fails, reads fail when their wait has passed, and name the address.
  if (auto moved = connections_.move(shard); !moved) log::warn("{}", moved.error().message);
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
  connections_.abandon_memory();
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

void ClientDriver::post(Request request, bool may_wait) {
  {
    std::scoped_lock lock(inbox_mutex_);
    inbox_.push_back(std::move(request));
    if (may_wait && callers_ == 0) return;
    if (!std::exchange(asleep_, false)) return;
  }
  endpoint_->wake();
}

/// Whether the leader need not be woken for a table's update: it is small, and others of its clock
/// follow. It leaves with the next one that is not, with the clock's last, when a caller waits for
/// something, or when the leader looks around.
bool ClientDriver::may_wait(Clock clock, std::size_t bytes) {
  if (std::exchange(clock_pushed_, clock) != clock) tables_pushed_ = 0;
  ++tables_pushed_;
  return bytes <= kSmallUpdate && tables_pushed_ < tables_;
}

void ClientDriver::open(std::vector<TableSpec> tables) {
  std::uint64_t bytes = 0;
  for (const TableSpec& table : tables) {
    if (!table.rows) bytes += table.count() * sizeof(float);
  }
  const auto shards = static_cast<double>(std::max<std::size_t>(1, shards_.size()));
  making_values_ = from_seconds(static_cast<double>(bytes) / shards / kMadeInASecond);
  encoder_.open(tables, SliceLayout(tables, shards_));
  tables_ = static_cast<std::size_t>(std::ranges::count_if(
      tables, [](const TableSpec& table) { return table.kind != TableKind::kFrozen; }));
  post({Request::Kind::kOpen, {}, {}, {}, {}, {}, std::move(tables)});
}

void ClientDriver::push(TableId table, Clock clock, const Buffer& gradient, float norm) {
  std::vector<Update> updates = encode(table, clock, Frame(gradient), norm);
  post({Request::Kind::kPush, table, clock, std::move(updates), {}, {}, {}},
       may_wait(clock, gradient.size()));
}

void ClientDriver::push_and_read(TableId table, Clock clock, const Frame& gradient,
                                 std::span<float> into, float norm) {
  std::vector<Update> updates = encode(table, clock, gradient, norm);
  post({Request::Kind::kPushRead, table, clock, std::move(updates), {}, into, {}},
       may_wait(clock, gradient.size()));
}

std::vector<Update> ClientDriver::encode(TableId table, Clock clock, const Frame& gradient,
                                         float norm) {
  std::vector<Update> updates = encoder_.encode(table, clock, gradient, norm, *pool_);
  const float weight = weight_ ? weight_(clock) : 1;
  std::size_t bytes = 0;
  for (Update& update : updates) {
    update.weight = weight;
    bytes += update.gradient.size();
  }
  pushed_ += bytes;
  saved_ += spared(gradient.size(), bytes);
  return updates;
}

void ClientDriver::read(TableId table, Clock clock, std::span<float> into) {
  post({Request::Kind::kRead, table, clock, {}, {}, into, {}});
}

Result<void> ClientDriver::push_rows(const TableSpec& table, Clock clock,
                                     std::span<const std::uint64_t> rows,
                                     std::span<const float> gradients, float norm) {
  const float weight = weight_ ? weight_(clock) : 1;
  TAUT_TRY(auto updates, split_push(table, clock, rows, gradients, norm, weight, *pool_));
  const std::size_t bytes = rows.size() * sizeof(std::uint64_t) + gradients.size_bytes();
  pushed_ += bytes;
  post({Request::Kind::kPush, table.id, clock, std::move(updates), {}, {}, {}},
       may_wait(clock, bytes));
  return ok();
}

void ClientDriver::read_rows(TableId table, Clock clock, std::vector<RowRead> rows,
                             std::span<float> into) {
  post({Request::Kind::kRead, table, clock, {}, {}, into, {}, std::move(rows)});
}

void ClientDriver::snapshot_rows(TableId table, std::vector<RowRead> rows, const Buffer& values) {
  snapshot_wait_.reset();
  post({Request::Kind::kSnapshot, table, {}, {}, values, {}, {}, std::move(rows)});
}

void ClientDriver::on_read(Client::OnRead notify) {
  std::scoped_lock lock(mutex_);
  notify_ = std::move(notify);
}

void ClientDriver::on_values(Client::OnValues take) {
  std::scoped_lock lock(mutex_);
  protocol_.on_values(std::move(take));
}

void ClientDriver::snapshot(TableId table, const Buffer& values) {
  snapshot_wait_.reset();
  post({Request::Kind::kSnapshot, table, {}, {}, values, {}, {}});
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
      protocol_.open(std::move(request.tables), encoder_.compression());
      break;
    case Request::Kind::kPush:
      protocol_.push(table, std::move(request.updates));
      break;
    case Request::Kind::kPushRead:
      // The read is first: the protocol joins it to the push that it follows.
      protocol_.read(table, request.clock.next(), request.into);
      note_read(table);
      protocol_.push(table, std::move(request.updates));
      break;
    case Request::Kind::kRead:
      // A read that is requested again has not completed, even if one at the same clock has.
      reads_[table.value()].clock = Clock(-1);
      if (request.rows.empty()) {
        protocol_.read(table, request.clock, request.into);
      } else {
        protocol_.read_rows(table, request.clock, std::move(request.rows), request.into);
      }
      note_read(table);
      break;
    case Request::Kind::kSnapshot:
      snapshots_[table.value()].clock = Clock(-1);
      if (request.rows.empty()) {
        protocol_.snapshot(table, request.memory.floats());
      } else {
        protocol_.snapshot_rows(table, std::move(request.rows), request.memory.floats());
      }
      snapshot_memory_[table.value()] = std::move(request.memory);
      break;
  }
}

void ClientDriver::note_read(TableId table) {
  if (timeline::is_on()) requested_[table] = time_.now();
}

/// REQUIRES: the lock, and the lead.
void ClientDriver::note_load() {
  if (load_ == nullptr) return;
  protocol_.describe(figures_);
  load_->note(figures_);
}

ClientDriver::Waiting ClientDriver::waiting_from_now() const {
  const TimePoint now = time_.now();
  return {.begin = now, .report_at = now + kLongWait, .table = {}, .clock = Clock(-1)};
}

/// While a caller waits, nothing is held back.
class ClientDriver::CallerHere {
 public:
  explicit CallerHere(ClientDriver& driver) : driver_(driver) {
    std::scoped_lock lock(driver_.inbox_mutex_);
    ++driver_.callers_;
    had_held_back_ = driver_.asleep_ && !driver_.inbox_.empty();
  }
  ~CallerHere() {
    std::scoped_lock lock(driver_.inbox_mutex_);
    --driver_.callers_;
  }
  CallerHere(const CallerHere&) = delete;
  CallerHere& operator=(const CallerHere&) = delete;
  [[nodiscard]] bool had_held_back() const { return had_held_back_; }

 private:
  ClientDriver& driver_;
  bool had_held_back_ = false;
};

/// Names the shard that a caller has waited for for longer than `limit`, so that its server can be
/// given up before this worker is.
void ClientDriver::look_for_silence(const Waiting& waiting, TimePoint now, Duration limit) {
  if (now - waiting.begin <= limit) return;
  const auto silence = protocol_.longest_silence();
  const bool is_long = silence && now - silence->since.value_or(waiting.begin) > limit;
  note_silence(is_long ? std::optional(SilentShard{silence->shard, silence->term}) : std::nullopt);
}

void ClientDriver::note_silence(std::optional<SilentShard> shard) {
  if (load_ == nullptr || (!shard && !has_named_silent_)) return;
  has_named_silent_ = shard.has_value();
  load_->note_silent(shard);
}

template <class Done, class Describe>
Result<void> ClientDriver::await(Waiting& waiting, Duration wait, const Done& done,
                                 const Describe& what) {
  const CallerHere here(*this);
  std::unique_lock lock(mutex_);
  drain();
  if (here.had_held_back()) wake_leader();
  if (done()) return ok();
  TimePoint deadline = waiting.begin + wait;
  std::optional<ClientProtocol::Silence> silence;
  caller_waits_ = true;
  // Once the tables are open, what refuses may be a process that has taken a shard's port.
  const auto is_refused = [this] { return refused_ && !protocol_.ready(); };
  while (!done() && !cancelled_ && !protocol_.failure() && !is_refused()) {
    const TimePoint now = time_.now();
    if (now >= deadline) {
      silence = protocol_.longest_silence();
      if (silence) {
        deadline = std::max(waiting.begin, silence->since.value_or(waiting.begin)) + wait;
      }
      if (now >= deadline) break;
    }
    if (now >= waiting.report_at) {
      log::warn("{} has waited for {:.0f} s", what(), seconds(now - waiting.begin));
      waiting.report_at = now + kLongWait;
    }
    look_for_silence(waiting, now, wait / 2);
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
  if (!has_thread_) expect_work();
  callers_until_ = time_.now() + kCallersTurn;
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
                  silence->shard.value(), connections_.address_of(silence->shard), seconds(wait)));
}

template <class Done, class Describe>
Result<bool> ClientDriver::await_step(std::optional<Waiting>& waiting, Duration wait,
                                      Duration at_most, const Done& done, const Describe& what) {
  const bool is_bounded = at_most != kForever;
  const TimePoint until = is_bounded ? time_.now() + at_most : TimePoint();
  if (!waiting) waiting = waiting_from_now();
  const auto waited = await(
      *waiting, wait, [&] { return done() || (is_bounded && time_.now() >= until); }, what);
  const std::scoped_lock lock(mutex_);
  if (waited && !done()) return false;
  if (waited) note_silence(std::nullopt);
  waiting.reset();
  if (!waited) return waited.error();
  return true;
}

Result<bool> ClientDriver::await_open(Duration wait, Duration at_most) {
  return await_step(
      open_wait_, wait + making_values_, at_most, [this] { return protocol_.ready(); },
      [] { return std::string("opening the tables at the shards"); });
}

Result<CompletedRead> ClientDriver::await_read(TableId table, Clock clock, Duration wait) {
  TAUT_TRY(const auto read, await_read(table, clock, wait, kForever));
  return *read;
}

Result<std::optional<CompletedRead>> ClientDriver::await_read(TableId table, Clock clock,
                                                              Duration wait, Duration at_most) {
  if (read_wait_ && (read_wait_->table != table || read_wait_->clock != clock)) read_wait_.reset();
  if (!read_wait_) {
    read_wait_ = waiting_from_now();
    read_wait_->table = table;
    read_wait_->clock = clock;
  }
  TAUT_TRY(const bool has_come,
           await_step(
               read_wait_, wait, at_most, [&] { return reads_[table.value()].clock == clock; },
               [&] {
                 const auto whom = protocol_.read_waits_for(table);
                 return fmt::format(
                     "the read of table {} at clock {}{}", table.value(), clock.value(),
                     whom ? fmt::format(", for worker {}'s update", whom->value()) : "");
               }));
  if (!has_come) return std::optional<CompletedRead>();
  std::scoped_lock lock(mutex_);
  return std::optional(reads_[table.value()]);
}

Result<std::optional<CompletedRead>> ClientDriver::await_snapshot(TableId table, Duration wait,
                                                                  Duration at_most) {
  TAUT_TRY(const bool has_come,
           await_step(
               snapshot_wait_, wait, at_most,
               [&] { return snapshots_[table.value()].clock != Clock(-1); },
               [&] { return fmt::format("the snapshot of table {}", table.value()); }));
  if (!has_come) return std::optional<CompletedRead>();
  std::scoped_lock lock(mutex_);
  return std::optional(snapshots_[table.value()]);
}

Result<void> ClientDriver::await_acknowledged(std::size_t slices, Duration wait) {
  std::optional<Waiting> waiting;
  const auto done = await_step(
      waiting, wait, kForever, [&] { return protocol_.unacknowledged() <= slices; },
      [] { return std::string("the acknowledgement of updates"); });
  if (!done) return done.error();
  return ok();
}

Result<bool> ClientDriver::await_settled(Duration wait, Duration at_most) {
  if (!settle_wait_) {
    std::scoped_lock lock(mutex_);
    drain();
    protocol_.settle();
  }
  return await_step(
      settle_wait_, wait, at_most, [&] { return protocol_.unsettled() == 0; },
      [] { return std::string("the acknowledgement of updates"); });
}

void ClientDriver::run() {
  follow_main_thread();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = time_.now();
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

/// Sends what is to be sent, and takes what arrives, waiting for it up to `patience`. Bytes are
/// sent, received and decoded without the lock. REQUIRES: the lock, and the lead.
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
  }
  collect();
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

}  // namespace taut
