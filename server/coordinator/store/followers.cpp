#include "server/coordinator/store/followers.hpp"

#include <algorithm>

namespace taut {

const Followers::Follower* Followers::hear(const pb::Follow& report, TimePoint now) {
  const FollowerId id(report.follower());
  if (followers_.size() >= kMax && !followers_.contains(id)) return nullptr;
  const auto [entry, added] = followers_.try_emplace(id);
  Follower& follower = entry->second;
  if (added) follower.order = next_++;
  follower.id = id;
  follower.name = report.name();
  follower.bounded = report.bounded();
  follower.version = std::max(follower.version, Clock(report.version()));
  follower.address = report.address();
  follower.received = report.received_bytes();
  follower.passed = report.passed_bytes();
  follower.last_heard = now;
  if (report.avoid() != 0) follower.avoids.try_emplace(FollowerId(report.avoid()), now);
  std::erase_if(follower.avoids, [&](const auto& avoided) {
    return !followers_.contains(avoided.first) || now - avoided.second > kAvoid;
  });
  return &follower;
}

void Followers::recover(const pb::BoundedFollower& known, TimePoint now) {
  Follower& follower = followers_[FollowerId(known.follower())];
  follower.id = FollowerId(known.follower());
  follower.name = known.name();
  follower.bounded = true;
  follower.order = next_++;
  follower.last_heard = now;
}

std::vector<Followers::Follower> Followers::silent(Duration limit, TimePoint now) const {
  std::vector<Follower> silent;
  for (const auto& [id, follower] : followers_) {
    if (now - follower.last_heard > limit) silent.push_back(follower);
  }
  return silent;
}

void Followers::excuse_silence(Duration pause, TimePoint now) {
  for (auto& [id, follower] : followers_)
    follower.last_heard = std::min(now, follower.last_heard + pause);
}

const Followers::Follower* Followers::source_of(const Follower& follower) const {
  if (follower.address.empty()) return nullptr;
  const Follower* source = nullptr;
  for (const auto& [id, one] : followers_) {
    const bool may_be =
        !one.address.empty() && one.order < follower.order && !follower.avoids.contains(id);
    if (may_be && (source == nullptr || source->order < one.order)) source = &one;
  }
  return source;
}

}  // namespace taut
