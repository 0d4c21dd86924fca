#include "common/net/zmq/connection_eviction.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace taut {

std::vector<int> connections_to_close(std::vector<OpenConnection> open, std::size_t limit) {
  std::vector<int> closed;
  if (open.size() <= limit) return closed;
  const std::size_t excess = open.size() - limit;
  std::ranges::sort(open, {}, [](const OpenConnection& one) {
    return std::tuple(one.has_spoken, one.last_heard, one.descriptor);
  });
  const auto spoken = std::ranges::find_if(open, &OpenConnection::has_spoken);
  for (auto one = open.begin(); one != spoken && closed.size() < excess; ++one) {
    closed.push_back(one->descriptor);
  }
  // The connections of each key, the longest-silent first.
  std::unordered_map<std::size_t, std::vector<const OpenConnection*>> of_key;
  for (auto one = spoken; one != open.end(); ++one) of_key[one->key].push_back(&*one);
  using Share = std::pair<std::size_t, std::size_t>;  // a key's remaining connections, and the key
  std::priority_queue<Share> largest;
  for (const auto& [key, connections] : of_key) largest.emplace(connections.size(), key);
  while (closed.size() < excess) {
    const auto [left, key] = largest.top();
    largest.pop();
    const auto& connections = of_key.at(key);
    closed.push_back(connections[connections.size() - left]->descriptor);
    if (left > 1) largest.emplace(left - 1, key);
  }
  return closed;
}

}  // namespace taut
