#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/all_reduce.hpp"
#include "worker/collective/gossip_graph.hpp"

namespace taut::test {

/// From 0 to `below` - 1.
inline std::uint32_t pick(std::mt19937& random, std::uint64_t below) {
  return static_cast<std::uint32_t>(random() % below);
}

inline constexpr collective::Algorithm kAlgorithms[] = {
    collective::Algorithm::kRing, collective::Algorithm::kHalving,
    collective::Algorithm::kDoubleTree, collective::Algorithm::kHierarchical};

inline constexpr collective::Graph kGraphs[] = {collective::Graph::kRing, collective::Graph::kTorus,
                                                collective::Graph::kHypercube,
                                                collective::Graph::kExponential};

/// Ranks in one thread. What one sends is a view of its values, as in shared memory: if it changed
/// them too early, the sums would show it.
class ToyGroup {
 public:
  struct Sent {
    collective::Rank from;
    collective::ChunkTo what;
  };

  ToyGroup(collective::Algorithm algorithm, const std::vector<std::uint32_t>& host_of,
           std::uint64_t chunk, const std::vector<std::vector<float>>& values)
      : sent(host_of.size()) {
    for (std::uint32_t rank = 0; rank < host_of.size(); ++rank) {
      const collective::RankPlace place{collective::Rank(rank), host_of};
      buffers.push_back(pool_.acquire(values[rank].size() * sizeof(float)));
      std::ranges::copy(values[rank], buffers.back().floats().begin());
      ranks.push_back(std::make_unique<collective::AllReduce>(
          collective::make_schedule(algorithm, place, values[rank].size()), buffers.back(), chunk));
    }
  }

  void start() {
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      note(rank, ranks[rank]->start(TimePoint()));
    }
  }

  void deliver(const Sent& message, TimePoint now = TimePoint()) {
    const std::uint32_t to = message.what.to.value();
    auto out = ranks[to]->receive(message.from, message.what.chunk, now);
    REQUIRE(out.has_value());
    note(to, std::move(out.value()));
  }

  /// All that is under way now, then what was sent meanwhile, and so on; returns how often.
  std::uint64_t run_in_steps() {
    std::uint64_t steps = 0;
    while (!under_way.empty()) {
      ++steps;
      std::vector<Sent> now;
      std::swap(now, under_way);
      for (const Sent& message : now) deliver(message);
    }
    return steps;
  }

  /// In any order, each message sometimes more than once.
  void run_in_disorder(std::mt19937& random) {
    while (!under_way.empty()) {
      const std::size_t which = pick(random, under_way.size());
      const Sent message = under_way[which];
      if (pick(random, 4) != 0) {
        under_way[which] = under_way.back();
        under_way.pop_back();
      }
      deliver(message);
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> bits_of(std::uint32_t rank) const {
    std::vector<std::uint32_t> bits;
    for (const float value : buffers[rank].floats()) {
      bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return bits;
  }

  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<collective::AllReduce>> ranks;
  std::vector<Sent> under_way;
  std::vector<collective::Cost> sent;  // by each rank; its steps are not counted here

 private:
  void note(std::uint32_t rank, std::vector<collective::ChunkTo> out) {
    for (collective::ChunkTo& one : out) {
      ++sent[rank].messages;
      sent[rank].bytes += one.chunk.payload.size();
      under_way.push_back({collective::Rank(rank), std::move(one)});
    }
  }

  BufferPool pool_;
};

inline std::vector<std::uint32_t> separate_hosts(std::uint32_t ranks) {
  std::vector<std::uint32_t> hosts(ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) hosts[i] = i;
  return hosts;
}

inline std::vector<std::uint32_t> random_hosts(std::uint32_t ranks, std::mt19937& random) {
  std::vector<std::uint32_t> hosts(ranks);
  const std::uint32_t most = 1 + pick(random, ranks);
  for (std::uint32_t& host : hosts) host = pick(random, most);
  return hosts;
}

inline std::vector<std::vector<float>> random_values(std::uint32_t ranks, std::uint64_t count,
                                                     std::mt19937& random) {
  std::vector<std::vector<float>> values(ranks, std::vector<float>(count));
  for (auto& of_rank : values) {
    for (float& value : of_rank) {
      value = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
    }
  }
  return values;
}

}  // namespace taut::test
