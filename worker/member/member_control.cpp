#include "worker/member/member_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "common/system/host_name.hpp"

namespace taut {
namespace {

constexpr Duration kStep{100'000};

std::vector<ShardAddress> addresses_of(const pb::WorkerJob& job) {
  std::vector<ShardAddress> shards;
  for (const pb::ShardInfo& shard : job.shards()) {
    shards.push_back({ShardId(shard.shard()), shard.address(), shard.term()});
  }
  return shards;
}

}  // namespace

Result<std::unique_ptr<MemberControl>> MemberControl::open(std::unique_ptr<Endpoint> endpoint,
                                                           const std::string& coordinator,
                                                           const std::string& name, JobId job,
                                                           Duration start_wait) {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = name;
  std::random_device source;
  identity.session = (std::uint64_t{source()} << 32U) | source();
  identity.device = "an external program";
  identity.host = host_name();
  identity.job = job;
  ControlTimings timings;
  timings.wait_limit = start_wait;
  TAUT_TRY(auto link, ControlLink::open(std::move(endpoint), coordinator, identity, timings));
  return std::unique_ptr<MemberControl>(new MemberControl(std::move(link), job));
}

MemberControl::MemberControl(std::unique_ptr<ControlLink> link, JobId job)
    : link_(std::move(link)), job_(job), thread_([this] { run(); }) {}

MemberControl::~MemberControl() {
  {
    const std::scoped_lock lock(mutex_);
    closes_ = true;
  }
  link_->wake();
  thread_.join();
}

void MemberControl::run() {
  while (true) {
    bool is_urgent = false;
    {
      const std::scoped_lock lock(mutex_);
      if (closes_) break;
      is_urgent = std::exchange(is_urgent_, false);
      if (has_left_) link_->leave();
    }
    link_->report(heartbeat(), is_urgent);
    for (const ControlEvent& event : link_->step(kStep)) handle(event);
  }
  link_->say_goodbye(error_.empty() ? "its program has closed it" : error_);
}

void MemberControl::handle(const ControlEvent& event) {
  using namespace control_event;
  if (const auto* job = std::get_if<pb::WorkerJob>(&event)) {
    take_job(*job);
  } else if (const auto* refused = std::get_if<Refused>(&event)) {
    finish(ErrorCode::kUnavailable,
           fmt::format("the coordinator refuses this member: {}", refused->reason));
  } else if (const auto* lost = std::get_if<DeclaredLost>(&event)) {
    finish(ErrorCode::kStale,
           fmt::format("this member was declared lost: {}; join again", lost->reason));
  } else if (const auto* unreachable = std::get_if<Unreachable>(&event)) {
    finish(ErrorCode::kTimeout,
           fmt::format(
               "cannot reach the coordinator: {}; start tautline-server, or name another address",
               unreachable->reason));
  } else if (std::holds_alternative<Leave>(event)) {
    const std::scoped_lock lock(mutex_);
    if (!orders_.leave) orders_.reason = "it was drained by request";
    orders_.leave = true;
  } else if (std::holds_alternative<Drained>(event)) {
    const std::scoped_lock lock(mutex_);
    is_drained_ = true;
    changed_.notify_all();
  }
}

void MemberControl::take_job(const pb::WorkerJob& job) {
  if (JobId(job.job()) != job_) return;
  {
    const std::scoped_lock lock(mutex_);
    const bool is_known = place_ && place_->incarnation() == job.incarnation();
    if (place_ && !is_known) return;  // of a later life, which its program does not know
    place_ = job;
    is_urgent_ = true;  // the coordinator waits for the answer
    if (client_ != nullptr && is_known && job.replicated()) {
      client_->move_shards(addresses_of(job));
    }
    changed_.notify_all();
    if (!job.stop()) return;
    orders_.stop = true;
    orders_.reason = job.stop_reason();
  }
  finish(ErrorCode::kClosed,
         fmt::format("job {} is over: {}", job_.value(),
                     job.stop_reason().empty() ? "it was stopped" : job.stop_reason()));
}

void MemberControl::finish(ErrorCode code, std::string reason) {
  const std::scoped_lock lock(mutex_);
  end_calls(make_error(code, std::move(reason)));
}

/// REQUIRES: the lock.
void MemberControl::end_calls(Error error) {
  if (!end_) end_ = std::move(error);
  if (client_ != nullptr) client_->cancel();
  changed_.notify_all();
}

void MemberControl::cancel() {
  const std::scoped_lock lock(mutex_);
  is_cancelled_ = true;
  end_calls(make_error(ErrorCode::kClosed, "this member was closed; join again"));
}

Result<void> MemberControl::fail(const std::string& reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (end_) return *end_;
    if (has_left_) return make_error(ErrorCode::kClosed, "this member has left its job before");
    error_ = reason;
    is_urgent_ = true;
    end_calls(make_error(
        ErrorCode::kClosed,
        fmt::format("this member has left its job, as it failed: {}; join again", reason)));
  }
  link_->wake();
  return ok();
}

Result<std::optional<pb::WorkerJob>> MemberControl::await_place(Duration wait) {
  std::unique_lock lock(mutex_);
  const auto is_known = [this] { return place_ || end_; };
  // A time point that far would overflow.
  wait == Duration::max() ? changed_.wait(lock, is_known)
                          : (void)changed_.wait_for(lock, wait, is_known);
  if (end_) return *end_;
  return place_;
}

void MemberControl::use(Client* client) {
  const std::scoped_lock lock(mutex_);
  client_ = client;
  if (client == nullptr) return;
  // Addresses may have arrived since the place was taken.
  client->move_shards(addresses_of(*place_));
  if (end_) client->cancel();
}

void MemberControl::report(const Figures& figures) {
  const std::scoped_lock lock(mutex_);
  figures_ = figures;
}

MemberOrders MemberControl::orders() const {
  const std::scoped_lock lock(mutex_);
  return orders_;
}

std::optional<Error> MemberControl::end() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}

void MemberControl::begin_leave(bool finished, Duration wait) {
  {
    const std::scoped_lock lock(mutex_);
    if (end_ || !place_) return;
    has_left_ = true;
    has_finished_ = finished;
    is_urgent_ = true;
    left_by_ = steady_now() + wait;
  }
  link_->wake();
}

Result<bool> MemberControl::await_left(Duration at_most) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_drained_ || end_ || !place_; };
  const Duration left = std::max(left_by_ - steady_now(), Duration(0));
  const bool is_known = changed_.wait_for(lock, std::min(left, at_most), is_over);
  // A job that is over need not be left.
  if (is_cancelled_ && !is_drained_) return *end_;
  if (is_known) return true;
  if (steady_now() < left_by_) return false;
  return make_error(ErrorCode::kTimeout,
                    fmt::format("the coordinator has not confirmed in time that this member leaves "
                                "job {}; it will be treated as lost",
                                job_.value()));
}

pb::Heartbeat MemberControl::heartbeat() {
  const std::scoped_lock lock(mutex_);
  pb::Heartbeat content;
  if (place_) *content.mutable_progress() = progress();
  return content;
}

/// REQUIRES: the lock, and a place.
pb::Progress MemberControl::progress() {
  const TimePoint now = steady_now();
  pb::Progress progress;
  progress.set_job(place_->job());
  progress.set_revision(place_->revision());
  progress.set_incarnation(place_->incarnation());
  progress.set_clock(std::max(figures_.clock.value(), place_->start_clock()));
  if (figures_.loss) progress.set_loss(*figures_.loss);
  progress.set_images(figures_.items);
  progress.set_images_per_second(rate_.take(now, figures_.items));
  if (figures_.items > 0) {
    progress.set_trained_s(seconds(figures_.ended - figures_.begun));
    progress.set_since_trained_s(seconds(now - figures_.ended));
  }
  progress.set_compute_s(seconds(figures_.computed));
  progress.set_wait_s(seconds(figures_.waited));
  for (const auto& [staleness, reads] : figures_.staleness) {
    pb::StalenessBin& bin = *progress.add_staleness();
    bin.set_staleness(staleness);
    bin.set_reads(reads);
  }
  progress.set_pushed_bytes(figures_.traffic.pushed);
  progress.set_read_bytes(figures_.traffic.read);
  progress.set_saved_bytes(figures_.traffic.saved);
  progress.set_read_saved_bytes(figures_.traffic.read_saved);
  progress.set_resent_requests(figures_.traffic.resent);
  if (const auto silent = load_->silent()) {
    progress.mutable_silent()->set_shard(silent->shard.value());
    progress.mutable_silent()->set_term(silent->term);
  }
  progress.set_finished(has_finished_ || orders_.stop);
  progress.set_left(has_left_);
  progress.set_error(error_);
  return progress;
}

}  // namespace taut
