#include "server/tables/row_allowance.hpp"

#include <algorithm>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/row_buckets.hpp"

namespace taut::server {
namespace {

// What an update or a read takes in addition to its payload: its entries in a slice's lists and
// here. An update was measured to take 200 bytes.
constexpr std::uint64_t kItemBytes = 256;

/// The most memory that `buffers` buffers of `bytes` bytes in total take. Sizes are rounded up by
/// up to a quarter, and small ones to the smallest size.
std::uint64_t in_buffers(std::uint64_t bytes, std::uint64_t buffers) {
  return bytes + bytes / 4 + buffers * BufferPool::rounded_size(1);
}

}  // namespace

ClockBytes ClockBytes::of(const TableSpec& table, std::uint64_t buckets) {
  const std::uint64_t of_item = max_rows_of_item(std::max(1UL, table.width()));
  const std::uint64_t all = static_cast<std::uint64_t>(table.shape[0]);
  std::uint64_t rows = std::min(all, buckets * of_item);
  if (table.rows->clock_rows > 0) rows = std::min(rows, table.rows->clock_rows);
  ClockBytes bytes;
  bytes.updates =
      in_buffers(rows * pushed_row_bytes(table.width()), buckets) + buckets * kItemBytes;
  // A read may name a row twice.
  bytes.reads = 2 * rows * sizeof(std::uint64_t) + buckets * kItemBytes;
  bytes.answers = in_buffers(rows * table.width() * sizeof(float), buckets);
  return bytes;
}

std::uint64_t RowAllowance::max_bytes(const TableSpec& table, std::uint64_t buckets,
                                      std::uint64_t members) {
  const ClockBytes each = ClockBytes::of(table, buckets);
  return members * (2 * each.updates + each.reads + each.answers);
}

std::uint64_t RowAllowance::max_logged_bytes(const TableSpec& table, std::uint64_t buckets,
                                             std::uint64_t members) {
  constexpr std::uint64_t kWaitingClocks = 2;
  constexpr std::uint64_t kRepeatedClocks = 2;
  return (kMaxUnsavedClocks + kWaitingClocks + kRepeatedClocks) * members *
         ClockBytes::of(table, buckets).updates;
}

std::uint64_t RowAllowance::bytes_of(const Update& update) {
  return BufferPool::rounded_size(std::max<std::size_t>(1, update.gradient.size())) + kItemBytes;
}

bool RowAllowance::is_beyond_clock(WorkerId worker, Clock clock, std::uint64_t bytes) const {
  std::uint64_t held = 0;
  if (const auto of = waiting_.find(worker); of != waiting_.end()) {
    const auto at = of->second.updates.find(clock);
    if (at != of->second.updates.end()) held = at->second;
  }
  return held + bytes > each_.updates;
}

bool RowAllowance::may_hold(WorkerId worker, std::uint64_t bytes) const {
  const auto of = waiting_.find(worker);
  const std::uint64_t held = of == waiting_.end() ? 0 : of->second.held;
  return held + bytes <= each_.updates && held_ + bytes <= members_ * each_.updates;
}

RowAllowance::Share RowAllowance::hold(WorkerId worker, Clock clock, std::uint64_t bytes) {
  Waiting& waiting = waiting_[worker];
  waiting.updates[clock] += bytes;
  waiting.held += bytes;
  held_ += bytes;
  return {shared_from_this(), worker, clock, bytes};
}

RowAllowance::Share RowAllowance::park(WorkerId worker, std::uint64_t rows,
                                       std::uint64_t replaced) {
  const std::uint64_t bytes = rows * sizeof(std::uint64_t) + kItemBytes;
  const auto of = waiting_.find(worker);
  const std::uint64_t parked = of == waiting_.end() ? 0 : of->second.reads;
  if (parked - replaced + bytes > each_.reads) return {};
  waiting_[worker].reads += bytes;
  return {shared_from_this(), worker, Clock::never(), bytes};
}

RowAllowance::Share& RowAllowance::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  release();
  from_ = std::move(other.from_);
  worker_ = other.worker_;
  clock_ = other.clock_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void RowAllowance::Share::release() {
  if (!from_) return;
  const auto of = from_->waiting_.find(worker_);
  Waiting& waiting = of->second;
  if (clock_ == Clock::never()) {
    waiting.reads -= bytes_;
  } else {
    const auto at = waiting.updates.find(clock_);
    at->second -= bytes_;
    if (at->second == 0) waiting.updates.erase(at);
    waiting.held -= bytes_;
    from_->held_ -= bytes_;
  }
  if (waiting.held == 0 && waiting.reads == 0) from_->waiting_.erase(of);
  from_.reset();
  bytes_ = 0;
}

}  // namespace taut::server
