#include "lab/training/host_cores.hpp"

#include <algorithm>
#include <utility>

namespace taut::lab {
namespace {

// Microseconds: the rounding error that may remain.
constexpr double kRest = 1e-6;

double microseconds(Duration duration) {
  return static_cast<double>(duration.count());
}

}  // namespace

double HostCores::rate() const {
  const auto threads = static_cast<double>(threads_.size());
  return threads > cores_ ? cores_ / threads : 1.0;
}

void HostCores::advance() {
  const TimePoint now = clock_.now();
  if (!threads_.empty()) attained_ += rate() * microseconds(now - last_);
  last_ = now;
}

/// Enters in the agenda when the next thread finishes, at the present rate.
void HostCores::plan() {
  if (threads_.empty()) return;
  const double left = std::max(0.0, (threads_.front().finish - attained_) / rate());
  agenda_.at(clock_.now() + from_microseconds(left - kRest), [this, plan = ++plan_] {
    if (plan == plan_) finish();
  });
}

void HostCores::run(double work_us, Done done) {
  advance();
  threads_.push_back({attained_ + work_us / speed_, order_++, std::move(done)});
  std::push_heap(threads_.begin(), threads_.end());
  plan();
}

void HostCores::stop() {
  advance();
  threads_.clear();
  ++plan_;
}

void HostCores::finish() {
  advance();
  std::vector<Done> through;
  while (!threads_.empty() && threads_.front().finish <= attained_ + kRest) {
    std::pop_heap(threads_.begin(), threads_.end());
    through.push_back(std::move(threads_.back().done));
    threads_.pop_back();
  }
  plan();
  for (const Done& done : through) done();
}

void Lane::add(Begin begin) {
  waiting_.push_back(std::move(begin));
  if (!busy_) turn();
}

void Lane::turn() {
  busy_ = true;
  const Begin begin = std::move(waiting_.front());
  waiting_.pop_front();
  Work work = begin();
  machine_.run(work.microseconds, [this, done = std::move(work.done)] {
    done();
    busy_ = false;
    if (!waiting_.empty()) turn();
  });
}

}  // namespace taut::lab
