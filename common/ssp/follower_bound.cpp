#include "common/ssp/follower_bound.hpp"

#include <algorithm>

namespace taut {
namespace {

auto lowest(const std::map<FollowerId, Clock>& confirmed) {
  return std::ranges::min_element(confirmed, {}, [](const auto& entry) { return entry.second; });
}

}  // namespace

void FollowerBound::update(std::int64_t slack, const std::map<FollowerId, Clock>& from) {
  slack_ = slack;
  std::erase_if(confirmed_, [&](const auto& entry) { return !from.contains(entry.first); });
  for (const auto& [follower, version] : from) confirmed_.try_emplace(follower, version);
}

std::optional<Clock> FollowerBound::confirm(FollowerId follower, Clock version) {
  const auto found = confirmed_.find(follower);
  if (found == confirmed_.end()) return std::nullopt;
  found->second = std::max(found->second, version);
  return found->second;
}

Clock FollowerBound::limit() const {
  return confirmed_.empty() ? Clock::never() : lowest(confirmed_)->second + slack_;
}

std::optional<FollowerId> FollowerBound::holds_back(Clock clock) const {
  if (clock <= limit()) return std::nullopt;
  return lowest(confirmed_)->first;
}

}  // namespace taut
