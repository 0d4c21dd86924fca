#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/log.hpp"
#include "common/system/affinity.hpp"
#include "worker/client/client_driver.hpp"

namespace taut {
namespace {

constexpr Duration kIdle{100'000};
// A caller that has just waited waits again soon if answers are small: for this long the thread
// leaves the lead to it.
constexpr Duration kCallersTurn{300};
constexpr Duration kLongWait{30'000'000};
constexpr Duration kForever = Duration::max();

}  // namespace

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

/// Reports the shard that a caller has waited for longer than `limit`, so that its server can be
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
  // Once the tables are open, a refusal may be from a process that has taken a shard's port.
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
      // Another thread leads: once woken, it hands the lead over.
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
  TAUT_TRY(const bool has_arrived,
           await_step(
               read_wait_, wait, at_most, [&] { return reads_[table.value()].clock == clock; },
               [&] {
                 const auto whom = protocol_.read_waits_for(table);
                 return fmt::format(
                     "the read of table {} at clock {}{}", table.value(), clock.value(),
                     whom ? fmt::format(", for worker {}'s update", whom->value()) : "");
               }));
  if (!has_arrived) return std::optional<CompletedRead>();
  std::scoped_lock lock(mutex_);
  return std::optional(reads_[table.value()]);
}

Result<std::optional<CompletedRead>> ClientDriver::await_snapshot(TableId table, Duration wait,
                                                                  Duration at_most) {
  TAUT_TRY(const bool has_arrived,
           await_step(
               snapshot_wait_, wait, at_most,
               [&] { return snapshots_[table.value()].clock != Clock(-1); },
               [&] { return fmt::format("the snapshot of table {}", table.value()); }));
  if (!has_arrived) return std::optional<CompletedRead>();
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

void ClientDriver::await_room(Bytes update) {
  const std::uint64_t bytes = update.value();
  if (room_ >= bytes) {
    if (bytes >= without_room_) without_room_ = 0;
    return;
  }
  if (without_room_ > 0) return;
  std::optional<Waiting> waiting;
  const auto waited = await_step(
      waiting, std::max(kLongWait, 2 * max_room_wait_), max_room_wait_,
      [&] { return protocol_.room() >= bytes; },
      [] { return std::string("room for the next update"); });
  // The next wait for an answer returns the error.
  if (!waited || waited.value()) return;
  without_room_ = bytes;
  log::warn(
      "backups lag: after {:.0f} s the next update takes memory beyond replication {{ memory }}",
      seconds(max_room_wait_));
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

}  // namespace taut
