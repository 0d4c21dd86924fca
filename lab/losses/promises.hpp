#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "lab/contract/contract.hpp"
#include "lab/contract/history.hpp"
#include "lab/toy_job.hpp"

namespace taut::sim {

/// The promises of shards: each answer to a worker says which of its updates outlive the shard's
/// primary, and the worker no longer keeps these. Checks that only the one primary of a term
/// promises, and that promised updates exist in every later term.
class Promises {
 public:
  explicit Promises(const ToyJob& job) : job_(job) {}

  /// Takes a host's newest view of the job, or a host's answer.
  [[nodiscard]] std::optional<Broken> take(const Event& event, const History& history);

 private:
  struct Place {
    std::uint32_t host = 0;
    std::uint64_t term = 0;
  };
  /// About one worker's updates of a slice.
  struct Promise {
    std::int64_t before = 0;  // all updates before this clock
    std::uint64_t term = 0;   // of the host that made it
  };
  [[nodiscard]] std::optional<Broken> take_view(std::uint32_t host, const pb::ServerJob& view);
  [[nodiscard]] std::optional<Broken> take_answer(const Event& event);

  const ToyJob& job_;
  struct Host {
    std::vector<Place> places;              // by shard, as it knows them
    std::map<std::uint32_t, bool> members;  // whether each was lost
  };
  std::map<std::uint32_t, Host> hosts_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shard_of_;   // by table, slice
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> primaries_;  // by shard, term
  std::map<std::pair<std::uint32_t, PeerId>, std::uint32_t> worker_of_;         // at a host
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Promise> promises_;
};

}  // namespace taut::sim
