#include "worker/client/client.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/check.hpp"
#include "worker/client/client_driver.hpp"

namespace taut {
namespace {

constexpr int kSnapshotTries = 20;
constexpr int kStalenessDigits = 10;

}  // namespace

void count_read(StalenessHistogram& reads, std::int64_t staleness) {
  const std::int64_t clocks = std::max<std::int64_t>(0, staleness);
  const int digits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(clocks)));
  const int dropped = std::max(0, digits - kStalenessDigits);
  ++reads[clocks >> dropped << dropped];
}

Client::Client(std::unique_ptr<Endpoint> endpoint, const ClientOptions& options)
    : driver_(std::make_unique<ClientDriver>(std::move(endpoint), options)),
      shares_pool_(options.pool != nullptr),
      pinning_(options.pinning) {}
Client::~Client() = default;

Result<void> Client::open(std::vector<TableSpec> tables, Duration wait) {
  begin_open(std::move(tables));
  TAUT_TRY(await_open(wait, Duration::max()));
  return ok();
}

void Client::begin_open(std::vector<TableSpec> tables) {
  tables_ = tables;
  std::size_t clock = 0;
  for (const TableSpec& table : tables) {
    if (!table.rows) clock += BufferPool::rounded_size(table.count() * sizeof(float));
  }
  // Gradients of at most two clocks are in flight; in the steady state none of their memory is
  // allocated or freed.
  if (!shares_pool_) {
    gradient_memory_ =
        std::make_shared<BufferPool::Reservation>(driver_->pool().keep_more(Bytes(2 * clock)));
  }
  driver_->open(std::move(tables));
}

Result<bool> Client::await_open(Duration wait, Duration at_most) {
  return driver_->await_open(wait, at_most);
}

Buffer Client::gradient_buffer(TableId table) {
  const TableSpec& spec = tables_[table.value()];
  TAUT_CHECK(!spec.rows, "a table that is kept by rows is pushed by rows");
  const std::size_t bytes = spec.count() * sizeof(float);
  driver_->await_room(Bytes(bytes));
  return driver_->pool().acquire(bytes);
}

bool Client::shares_memory() const {
  return driver_->shares_memory();
}

void Client::push(TableId table, Clock clock, const Buffer& gradient, float norm) {
  driver_->push(table, clock, gradient, norm);
}

void Client::push_and_read(TableId table, Clock clock, const Buffer& gradient,
                           std::span<float> into, float norm) {
  driver_->push_and_read(table, clock, Frame(gradient), into, norm);
}

void Client::push_and_read(TableId table, Clock clock, const Frame& gradient,
                           std::span<float> into) {
  driver_->push_and_read(table, clock, gradient, into, 0);
}

TableEncoding Client::encoding_of(TableId table, Clock clock) const {
  return driver_->encoder().encoding_of(table, clock);
}

Buffer Client::update_buffer(std::size_t bytes) {
  driver_->await_room(Bytes(bytes));
  return driver_->pool().acquire(bytes);
}

void Client::push_encoded_and_read(TableId table, Clock clock, const Buffer& memory,
                                   const TableEncoding& encoding, std::span<float> into,
                                   float norm) {
  driver_->push_encoded_and_read(table, clock, memory, encoding, into, norm);
}

std::vector<float> Client::hand_over_residual(TableId table, ResidualSource source) {
  return driver_->encoder().hand_over(table, std::move(source));
}

void Client::forget_residual_sources() {
  driver_->encoder().forget_sources();
}

void Client::read(TableId table, Clock clock, std::span<float> into) {
  driver_->read(table, clock, into);
}

Result<void> Client::push_rows(TableId table, Clock clock, std::span<const std::uint64_t> rows,
                               std::span<const float> gradients, float norm) {
  return driver_->push_rows(tables_[table.value()], clock, rows, gradients, norm);
}

Result<void> Client::read_rows(TableId table, Clock clock, std::span<const std::uint64_t> rows,
                               std::span<float> into) {
  const TableSpec& spec = tables_[table.value()];
  TAUT_CHECK(spec.rows && into.size() == rows.size() * spec.width(), "memory for each row");
  TAUT_TRY(auto reads, split_read(spec, rows, driver_->pool()));
  driver_->read_rows(table, clock, std::move(reads), into);
  return ok();
}

Result<ReadResult> Client::snapshot_rows(TableId table, std::span<const std::uint64_t> rows,
                                         std::span<float> into, Duration wait) {
  const TableSpec& spec = tables_[table.value()];
  TAUT_CHECK(spec.rows && into.size() == rows.size() * spec.width(), "memory for each row");
  TAUT_TRY(auto reads, split_read(spec, rows, driver_->pool()));
  const Buffer values = driver_->pool().acquire(into.size_bytes());
  driver_->snapshot_rows(table, std::move(reads), values);
  TAUT_TRY(const auto read, driver_->await_snapshot(table, wait, Duration::max()));
  std::ranges::copy(values.floats().first(into.size()), into.begin());
  return ReadResult{read->version, read->version};
}

Result<ReadResult> Client::wait(TableId table, Clock clock, Duration wait) {
  TAUT_TRY(const CompletedRead read, driver_->await_read(table, clock, wait));
  count_read(staleness_, clock - read.version);
  return ReadResult{read.clock, read.version};
}

Result<std::optional<ReadResult>> Client::wait(TableId table, Clock clock, Duration wait,
                                               Duration at_most) {
  TAUT_TRY(const auto read, driver_->await_read(table, clock, wait, at_most));
  if (!read) return std::optional<ReadResult>();
  count_read(staleness_, clock - read->version);
  return std::optional(ReadResult{read->clock, read->version});
}

void Client::on_read(OnRead notify) {
  driver_->on_read(std::move(notify));
}

void Client::on_values(OnValues take) {
  driver_->on_values(std::move(take));
}

Result<ReadResult> Client::snapshot(TableId table, std::span<float> into, Duration wait) {
  TAUT_TRY(const auto read, snapshot(table, into, wait, Duration::max()));
  return *read;
}

/// The values are read into the client's own memory: after a timeout an answer may still arrive and
/// be written into it.
void Client::begin_snapshot() {
  snapshot_->values = driver_->pool().acquire(snapshot_->into.size_bytes());
  driver_->snapshot(snapshot_->table, snapshot_->values);
}

Result<std::optional<ReadResult>> Client::snapshot(TableId table, std::span<float> into,
                                                   Duration wait, Duration at_most) {
  const bool continues = snapshot_ && snapshot_->table == table &&
                         snapshot_->into.data() == into.data() &&
                         snapshot_->into.size() == into.size();
  if (!continues) {
    snapshot_ = UnderWay{table, into, {}, 0};
    begin_snapshot();
  }
  while (true) {
    const auto read = driver_->await_snapshot(table, wait, at_most);
    if (read && !read.value()) return std::optional<ReadResult>();
    if (!read || read.value()->uniform || ++snapshot_->tries == kSnapshotTries) {
      const UnderWay ended = *std::exchange(snapshot_, std::nullopt);
      if (!read) return read.error();
      std::ranges::copy(ended.values.floats(), into.begin());
      return std::optional(ReadResult{read.value()->version, read.value()->version});
    }
    begin_snapshot();
  }
}

void Client::move_shards(std::vector<ShardAddress> shards) {
  driver_->move_shards(std::move(shards));
}

Result<void> Client::flush(Duration wait, std::size_t slices) {
  if (slices > 0) return driver_->await_acknowledged(slices, wait);
  TAUT_TRY(flush_for(wait, Duration::max()));
  return ok();
}

Result<bool> Client::flush_for(Duration wait, Duration at_most) {
  return driver_->await_settled(wait, at_most);
}

const StalenessHistogram& Client::staleness() const {
  return staleness_;
}

Client::Traffic Client::traffic() const {
  return driver_->traffic();
}

void Client::send_rest() {
  driver_->encoder().send_rest();
}

bool Client::sends_rest() const {
  return driver_->encoder().sends_rest();
}

bool Client::leaves_out() const {
  return driver_->encoder().leaves_out();
}

bool Client::keeps_residuals() const {
  return driver_->encoder().keeps_residuals();
}

Result<Residuals> Client::residuals(Clock start, Clock clock, Duration wait) {
  return driver_->encoder().residuals(start, clock, wait);
}

bool Client::restore(Residuals residuals) {
  return driver_->encoder().restore(std::move(residuals));
}

void Client::work() {
  driver_->work();
}

void Client::cancel() {
  driver_->cancel();
}

void Client::close() {
  driver_->close();
}

}  // namespace taut
