#include "worker/client/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "common/affinity.hpp"
#include "common/bounded_queue.hpp"
#include "common/check.hpp"
#include "common/log.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

constexpr Duration kTick{100'000};
constexpr std::size_t kQueuedRequests = 65536;
constexpr int kSnapshotTries = 20;

struct OpenRequest {
  std::vector<TableSpec> tables;
};
struct PushRequest {
  TableId table;
  Clock clock;
  Buffer gradient;
  float norm = 0;
  std::span<float> then_read;  // empty: no read follows
};
struct ReadRequest {
  TableId table;
  Clock clock;
  std::span<float> into;
};
struct SnapshotRequest {
  TableId table;
  Buffer into;
};
using Request = std::variant<OpenRequest, PushRequest, ReadRequest, SnapshotRequest>;

}  // namespace

/// The thread that owns the endpoint and drives the protocol, and what it tells the caller.
class Client::Mover {
 public:
  Mover(std::unique_ptr<Endpoint> endpoint, ClientOptions options)
      : endpoint_(std::move(endpoint)),
        protocol_({options.job, options.worker, options.incarnation, options.job_hash},
                  shard_ids(options), options.resend) {
    for (const ShardAddress& shard : options.shards) {
      auto peer = endpoint_->connect(shard.address);
      if (!peer) throw std::runtime_error(peer.error().message);
      shard_of_[peer.value()] = shard.shard;
      peer_of_[shard.shard] = peer.value();
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Mover() { close(); }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void close() {
    cancel();
    stopping_ = true;
    requests_.close();
    endpoint_->wake();
    if (thread_.joinable()) thread_.join();
  }

  void post(Request request) {
    if (const auto* push = std::get_if<PushRequest>(&request)) {
      pushed_ += push->gradient.size();
      ++pushes_posted_;
    }
    if (!requests_.push(std::move(request), Duration(10'000'000))) {
      std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = make_error(ErrorCode::kUnavailable, "the client's queue is full");
      return;
    }
    if (asleep_.exchange(false)) endpoint_->wake();
  }

  /// Waits until `done` holds under the lock. Errors: as Client::wait.
  template <class Done>
  Result<void> await(Duration wait, const std::string& what, const Done& done) {
    std::unique_lock lock(mutex_);
    const bool in_time =
        changed_.wait_for(lock, wait, [&] { return done() || failure_.has_value() || cancelled_; });
    if (done()) return ok();
    if (cancelled_) return make_error(ErrorCode::kClosed, what + ": the client was closed");
    if (failure_) return *failure_;
    TAUT_CHECK(!in_time, "a wait that ended without a reason");
    return make_error(ErrorCode::kTimeout,
                      fmt::format("{} took longer than {:.1f} s", what, seconds(wait)));
  }

  void cancel() {
    std::scoped_lock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  // What the caller waits for. Guarded by mutex_; use inside await().
  bool ready_ = false;
  std::vector<CompletedRead> reads_;  // the newest completed of each table
  struct Snapshot {
    CompletedRead read;
    Buffer values;
  };
  std::vector<Snapshot> snapshots_;  // the newest completed of each table
  std::size_t unacknowledged_ = 0;
  std::uint64_t pushes_seen_ = 0;

  [[nodiscard]] CompletedRead read_of(TableId table) {
    std::scoped_lock lock(mutex_);
    return reads_[table.value()];
  }
  [[nodiscard]] CompletedRead snapshot_of(TableId table) {
    std::scoped_lock lock(mutex_);
    return snapshots_[table.value()].read;
  }
  [[nodiscard]] bool flushed(std::size_t at_most) const {
    return pushes_seen_ == pushes_posted_ && unacknowledged_ <= at_most;
  }
  /// A read that is asked for anew has not come in, even if one at the same clock has.
  void forget_read(TableId table) {
    std::scoped_lock lock(mutex_);
    reads_[table.value()].clock = Clock(-1);
  }
  void resize(std::size_t tables) {
    std::scoped_lock lock(mutex_);
    reads_.assign(tables, CompletedRead{TableId(), Clock(-1), Clock(-1), false, true});
    snapshots_.assign(tables, Snapshot());
  }

  BufferPool pool_;
  std::vector<std::size_t> table_bytes_;
  std::atomic<std::uint64_t> pushed_ = 0;
  std::atomic<std::uint64_t> received_ = 0;

 private:
  static std::vector<ShardId> shard_ids(const ClientOptions& options) {
    std::vector<ShardId> ids;
    for (const ShardAddress& shard : options.shards) ids.push_back(shard.shard);
    return ids;
  }

  void run() {
    follow_main_thread();
    while (!stopping_) {
      drain_requests();
      send();
      publish();
      // A request that comes after this mark wakes the endpoint; one before it is seen here.
      asleep_ = true;
      if (requests_.size() > 0) asleep_ = false;
      const Duration patience = asleep_ ? kTick : Duration::zero();
      auto incoming = endpoint_->receive(patience);
      asleep_ = false;
      if (incoming) {
        receive(*incoming);
        // What else lies there already belongs to the same round of answers.
        for (int i = 0; i < 64; ++i) {
          auto more = endpoint_->receive(Duration::zero());
          if (!more) break;
          receive(*more);
        }
      }
      if (const TimePoint now = steady_now(); now - last_tick_ >= Duration(10'000)) {
        last_tick_ = now;
        protocol_.tick(now);
      }
    }
  }

  void drain_requests() {
    while (auto request = requests_.pop(Duration::zero())) {
      if (auto* open = std::get_if<OpenRequest>(&*request)) {
        protocol_.open(std::move(open->tables));
      } else if (auto* push = std::get_if<PushRequest>(&*request)) {
        // The read comes first: the protocol joins it to the push that it follows.
        if (!push->then_read.empty()) {
          protocol_.read(push->table, push->clock.next(), push->then_read);
        }
        protocol_.push(push->table, push->clock, Frame(push->gradient), push->norm);
        ++pushes_drained_;
      } else if (auto* read = std::get_if<ReadRequest>(&*request)) {
        protocol_.read(read->table, read->clock, read->into);
      } else if (auto* snapshot = std::get_if<SnapshotRequest>(&*request)) {
        protocol_.snapshot(snapshot->table, snapshot->into.floats());
        // Kept until the next one: a late answer must find it, whether or not anybody still waits.
        snapshot_memory_[snapshot->table] = std::move(snapshot->into);
      }
    }
  }

  void receive(const Incoming& incoming) {
    auto message = decode_data(incoming.message);
    if (!message) {
      log::warn("dropped a message from shard {}: {}", shard_of_[incoming.from].value(),
                message.error().message);
      return;
    }
    if (const auto* batch = std::get_if<DataItems>(&message.value().body)) {
      for (const DataItem& item : batch->items) received_ += item.payload.size();
    }
    protocol_.handle(shard_of_[incoming.from], message.value(), steady_now());
  }

  void send() {
    for (auto& [shard, message] : protocol_.take_outgoing(steady_now())) {
      // What cannot be sent now is sent again when its time has passed.
      if (auto sent = endpoint_->send(peer_of_[shard], encode(message)); !sent) {
        log::debug("shard {}: {}", shard.value(), sent.error().message);
      }
    }
  }

  void publish() {
    const auto completed = protocol_.take_completed();
    std::scoped_lock lock(mutex_);
    for (const CompletedRead& read : completed) {
      if (read.snapshot) {
        snapshots_[read.table.value()] = {read, snapshot_memory_[read.table]};
      } else {
        reads_[read.table.value()] = read;
      }
    }
    ready_ = protocol_.ready();
    unacknowledged_ = protocol_.unacknowledged();
    pushes_seen_ = pushes_drained_;
    if (!failure_ && protocol_.failure()) failure_ = protocol_.failure();
    changed_.notify_all();
  }

  std::unique_ptr<Endpoint> endpoint_;
  ClientProtocol protocol_;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::map<TableId, Buffer> snapshot_memory_;
  BoundedQueue<Request> requests_{kQueuedRequests};
  TimePoint last_tick_;
  std::uint64_t pushes_posted_ = 0;   // the caller's
  std::uint64_t pushes_drained_ = 0;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failure_;
  bool cancelled_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> asleep_ = false;  // the thread waits for messages, and nothing has woken it
  std::thread thread_;
};

Client::Client(std::unique_ptr<Endpoint> endpoint, ClientOptions options)
    : mover_(std::make_unique<Mover>(std::move(endpoint), std::move(options))) {}
Client::~Client() = default;

Result<void> Client::open(std::vector<TableSpec> tables, Duration wait) {
  mover_->resize(tables.size());
  mover_->table_bytes_.clear();
  for (const TableSpec& table : tables)
    mover_->table_bytes_.push_back(table.count() * sizeof(float));
  mover_->post(OpenRequest{std::move(tables)});
  return mover_->await(wait, "opening the tables at the shards", [this] { return mover_->ready_; });
}

Buffer Client::gradient_buffer(TableId table) {
  return mover_->pool_.acquire(mover_->table_bytes_[table.value()]);
}

void Client::push(TableId table, Clock clock, const Buffer& gradient, float norm) {
  mover_->post(PushRequest{table, clock, gradient, norm, {}});
}

void Client::push_and_read(TableId table, Clock clock, const Buffer& gradient,
                           std::span<float> into, float norm) {
  mover_->post(PushRequest{table, clock, gradient, norm, into});
}

void Client::read(TableId table, Clock clock, std::span<float> into) {
  mover_->forget_read(table);
  mover_->post(ReadRequest{table, clock, into});
}

Result<ReadResult> Client::wait(TableId table, Clock clock, Duration wait) {
  TAUT_TRY(mover_->await(
      wait, fmt::format("the read of table {} at clock {}", table.value(), clock.value()),
      [&] { return mover_->reads_[table.value()].clock == clock; }));
  const CompletedRead read = mover_->read_of(table);
  ++staleness_[std::max<std::int64_t>(0, clock - read.version)];
  return ReadResult{read.clock, read.version};
}

Result<ReadResult> Client::snapshot(TableId table, std::span<float> into, Duration wait) {
  CompletedRead read;
  for (int i = 0; i < kSnapshotTries; ++i) {
    // Memory of the client's own: after a timeout an answer may still come, and finds it there.
    const Buffer values = mover_->pool_.acquire(into.size_bytes());
    mover_->post(SnapshotRequest{table, values});
    TAUT_TRY(mover_->await(wait, fmt::format("the snapshot of table {}", table.value()), [&] {
      return mover_->snapshots_[table.value()].values.data() == values.data();
    }));
    std::ranges::copy(values.floats(), into.begin());
    read = mover_->snapshot_of(table);
    if (read.uniform) break;
  }
  return ReadResult{read.version, read.version};
}

Result<void> Client::flush(Duration wait, std::size_t at_most) {
  return mover_->await(wait, "the acknowledgement of updates",
                       [&] { return mover_->flushed(at_most); });
}

const StalenessHistogram& Client::staleness() const {
  return staleness_;
}

Client::Traffic Client::traffic() const {
  return {mover_->pushed_, mover_->received_};
}

void Client::cancel() {
  mover_->cancel();
}

void Client::close() {
  mover_->close();
}

}  // namespace taut
