#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/types.hpp"

namespace taut {

/// How far training may be ahead of the bounded followers: readers that push nothing, each of which
/// confirms the version that it has. A read at clock c is answered only once every follower has
/// confirmed version c - slack.
class FollowerBound {
 public:
  /// Replaces the set of followers. A new one starts at the version that it had confirmed when it
  /// joined; one that is not named no longer holds anything back.
  /// from  for each follower, the version that it had confirmed when it joined
  void update(std::int64_t slack, const std::map<FollowerId, Clock>& from);

  /// A follower has the whole model of this version; a lower version than before changes nothing.
  /// Returns the highest version that it has confirmed; nullopt if it is no follower.
  std::optional<Clock> confirm(FollowerId follower, Clock version);

  /// The last clock at which a read may be answered; never() if there is no follower.
  [[nodiscard]] Clock limit() const;
  /// The follower that a read at `clock` waits for; nullopt if none.
  [[nodiscard]] std::optional<FollowerId> holds_back(Clock clock) const;

 private:
  std::int64_t slack_ = 0;
  std::map<FollowerId, Clock> confirmed_;
};

}  // namespace taut
