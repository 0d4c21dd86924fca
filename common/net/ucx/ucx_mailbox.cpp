#include "common/net/ucx/ucx_mailbox.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace taut {

UcxMailbox::UcxMailbox(std::size_t limit)
    : limit_(std::max<std::size_t>(limit, 1)), descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw std::runtime_error("eventfd: no file descriptors left");
}

UcxMailbox::~UcxMailbox() {
  close(descriptor_);
}

/// REQUIRES: the lock.
void UcxMailbox::signal() {
  filled_.notify_one();
  if (!is_watched_ || std::exchange(is_readable_, true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void UcxMailbox::put(std::shared_ptr<UcxPeer> from, Message message) {
  const std::scoped_lock lock(mutex_);
  letters_.push_back({std::move(from), std::move(message)});
  signal();
}

void UcxMailbox::note_caller(std::shared_ptr<UcxPeer> caller) {
  const std::scoped_lock lock(mutex_);
  news_.callers.push_back(std::move(caller));
}

void UcxMailbox::note_gone(PeerId caller) {
  const std::scoped_lock lock(mutex_);
  news_.gone.push_back(caller);
}

void UcxMailbox::note_refusal(PeerId peer, std::optional<Refusal> refusal) {
  const std::scoped_lock lock(mutex_);
  if (!refusal) {
    refusals_.erase(peer);
    return;
  }
  refusals_.insert_or_assign(peer, std::move(*refusal));
  is_woken_ = true;
  signal();
}

void UcxMailbox::note_unadmitted() {
  ++unadmitted_;
}

bool UcxMailbox::is_full() const {
  const std::scoped_lock lock(mutex_);
  return letters_.size() >= limit_;
}

std::optional<UcxMailbox::Letter> UcxMailbox::take(TimePoint until, bool& was_full) {
  std::unique_lock lock(mutex_);
  const auto has_something = [&] { return !letters_.empty() || is_woken_; };
  while (!has_something()) {
    const Duration left = until - steady_now();
    if (left <= Duration::zero()) break;
    // An unlimited wait would overflow the clock.
    constexpr Duration kMaxWait = std::chrono::hours(1);
    filled_.wait_for(lock, std::min(left, kMaxWait));
  }
  was_full = letters_.size() >= limit_;
  std::optional<Letter> letter;
  if (letters_.empty()) {
    is_woken_ = false;
  } else {
    letter = std::move(letters_.front());
    letters_.pop_front();
  }
  if (letters_.empty() && std::exchange(is_readable_, false)) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = read(descriptor_, &count, sizeof count);
  }
  return letter;
}

UcxMailbox::News UcxMailbox::take_news() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(news_, {});
}

std::optional<Refusal> UcxMailbox::refusal(PeerId peer) const {
  const std::scoped_lock lock(mutex_);
  const auto found = refusals_.find(peer);
  return found == refusals_.end() ? std::nullopt : std::optional(found->second);
}

void UcxMailbox::forget(PeerId peer) {
  const std::scoped_lock lock(mutex_);
  refusals_.erase(peer);
}

void UcxMailbox::wake() {
  const std::scoped_lock lock(mutex_);
  is_woken_ = true;
  signal();
}

int UcxMailbox::descriptor() {
  const std::scoped_lock lock(mutex_);
  is_watched_ = true;
  if (!letters_.empty()) signal();
  return descriptor_;
}

}  // namespace taut
