#include <algorithm>
#include <utility>

#include "common/timeline.hpp"
#include "worker/client/client_driver.hpp"

namespace taut {
namespace {

// Bytes of one table: 1 GB/s moves this much in some 30 us, the assumed cost of waking a message's
// four threads.
constexpr std::size_t kSmallUpdate = 32UL << 10U;
// Bytes of initial values that a shard makes per second at least, even on a busy machine: it
// answers nothing meanwhile. If its server is lost, the coordinator notices.
constexpr double kMadeInASecond = 16.0 * (1U << 20U);

}  // namespace

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
/// follow. It is sent with the next larger one, with the clock's last one, when a caller waits, or
/// at the leader's next round.
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

void ClientDriver::push_encoded_and_read(TableId table, Clock clock, const Buffer& memory,
                                         const TableEncoding& encoding, std::span<float> into,
                                         float norm) {
  std::vector<Update> updates = encoder_.adopt(table, clock, Frame(memory), encoding, norm);
  updates = weighed(std::move(updates), clock, into.size_bytes());
  post({Request::Kind::kPushRead, table, clock, std::move(updates), {}, into, {}},
       may_wait(clock, into.size_bytes()));
}

std::uint64_t ClientDriver::spared(std::uint64_t bytes, std::uint64_t encoded) {
  return bytes > encoded ? bytes - encoded : 0;
}

std::vector<Update> ClientDriver::encode(TableId table, Clock clock, const Frame& gradient,
                                         float norm) {
  return weighed(encoder_.encode(table, clock, gradient, norm, *pool_), clock, gradient.size());
}

/// Sets the weight of an update's slices and counts its bytes.
/// whole  bytes of the update as float32
std::vector<Update> ClientDriver::weighed(std::vector<Update> updates, Clock clock,
                                          std::size_t whole) {
  const float weight = weight_ ? weight_(clock) : 1;
  std::size_t bytes = 0;
  for (Update& update : updates) {
    update.weight = weight;
    bytes += update.gradient.size();
  }
  pushed_ += bytes;
  saved_ += spared(whole, bytes);
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
  for (Request& request : requests) execute(request);
  room_ = protocol_.room();
}

void ClientDriver::execute(Request& request) {
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
      // The read goes first: the protocol attaches it to the push when that is sent.
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

}  // namespace taut
