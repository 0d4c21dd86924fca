#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/types.hpp"

namespace taut::server {

/// What readers that are no members wait for at one slice: the values as they are of a version that
/// V has not reached. The newest request of each connection. They hold nothing back.
/// Thread    shard thread
class ParkedFollows {
 public:
  /// More are not kept: their connections ask again.
  static constexpr std::size_t kMax = 1024;

  void park(PeerId peer, Clock version) {
    if (requests_.size() < kMax || requests_.contains(peer)) requests_[peer] = version;
  }
  void forget(PeerId peer) { requests_.erase(peer); }

  struct Request {
    PeerId peer;
    Clock version;
  };
  /// Removes those whose version is not after `until`, the last one of the slice's values.
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
