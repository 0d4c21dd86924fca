#include "proto/session/silence_watch.hpp"

#include <fmt/format.h>

#include <utility>

namespace taut {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(30);

}  // namespace

SilenceWatch::SilenceWatch(std::string peer, Duration limit, TimePoint now)
    : peer_(std::move(peer)), limit_(limit), last_(now), next_(now + limit) {}

std::string SilenceWatch::heard(TimePoint now) {
  std::string line;
  if (is_silent_ && was_heard_) {
    line = fmt::format("{} answers again after {:.0f} s", peer_, seconds(now - last_));
  }
  was_heard_ = true;
  is_silent_ = false;
  last_ = now;
  next_ = now + limit_;
  return line;
}

std::string SilenceWatch::tick(TimePoint now) {
  if (now < next_) return {};
  is_silent_ = true;
  next_ = now + kBetweenLines;
  return fmt::format("{} {} for {:.0f} s; waiting for it", peer_,
                     was_heard_ ? "is silent" : "has not answered", seconds(now - last_));
}

}  // namespace taut
