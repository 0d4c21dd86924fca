#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/types.hpp"

namespace taut::server {

/// Requests of readers that are not members for the values of one slice at a version that V has not
/// reached yet: the newest request of each connection. No update is held back for them.
/// Thread    shard thread
class ParkedFollows {
 public:
  /// Further requests are not kept; their connections ask again.
  static constexpr std::size_t kMax = 1024;

  void park(PeerId peer, Clock version) {
    if (requests_.size() < kMax || requests_.contains(peer)) requests_[peer] = version;
  }
  void forget(PeerId peer) { requests_.erase(peer); }

  struct Request {
    PeerId peer;
    Clock version;
  };
  /// Removes and returns the requests for versions up to `until`, the last one of the values.
  [[nodiscard]] std::vector<Request> take_reached(Clock until) {
    std::vector<Request> reached;
    for (auto request = requests_.begin(); request != requests_.end();) {
      if (request->second <= until) {
        reached.push_back({request->first, request->second});
        request = requests_.erase(request);
      } else {
        ++request;
      }
    }
    return reached;
  }

  [[nodiscard]] bool empty() const { return requests_.empty(); }

 private:
  std::map<PeerId, Clock> requests_;
};

}  // namespace taut::server
