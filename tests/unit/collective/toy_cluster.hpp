#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/collective/toy_worker.hpp"

namespace taut::test {

/// Workers, and the coordinator's part.
class ToyCluster {
 public:
  ToyCluster(std::uint32_t workers, collective::Algorithm algorithm, bool with_keys,
             bool shares_memory, std::optional<collective::Graph> graph = std::nullopt,
             bool asynchronous = false)
      : algorithm_(algorithm),
        graph_(graph),
        asynchronous_(asynchronous),
        with_keys_(with_keys),
        shares_memory_(shares_memory) {
    for (std::uint32_t i = 0; i < workers; ++i) add(Clock(0));
    announce();
  }

  /// The furthest of those that live.
  [[nodiscard]] Clock clock() const {
    Clock furthest(0);
    for (const auto& worker : living_) furthest = std::max(furthest, worker->clock());
    return furthest;
  }
  /// lead  clocks until its first one
  void join_one(std::int64_t lead = kLead) {
    add(Clock(clock().value() + lead));
    announce();
  }
  [[nodiscard]] Clock clock_of_newest() const { return living_.back()->clock(); }
  /// `delay`  until the others are told
  void kill(std::size_t which, Duration delay) {
    const auto victim = living_.begin() + static_cast<std::ptrdiff_t>(which % living_.size());
    (*victim)->die();
    (*victim)->join();
    std::this_thread::sleep_for(delay);
    meetings_.leave((*victim)->number());
    dead_.push_back(std::move(*victim));
    living_.erase(victim);
    announce();
  }
  /// Ranks of a group in which sums failed are given another number.
  void look() {
    for (const auto& worker : living_) {
      pb::Progress progress;
      worker->board.report(progress);
      if (progress.rank_place().broken() == number_) {
        announce();
        return;
      }
    }
  }
  [[nodiscard]] std::size_t size() const { return living_.size(); }
  std::vector<std::unique_ptr<ToyWorker>>& finish() {
    while (std::ranges::any_of(living_, [](const auto& one) { return !one->has_ended(); })) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (++looks_ > 8000) break;
    }
    for (const auto& worker : living_) worker->join();
    return living_;
  }

 private:
  void add(Clock first) {
    first = meetings_.enter(next_, first);
    if (first >= Clock(kClocks)) return;
    living_.push_back(
        std::make_unique<ToyWorker>(next_++, first, with_keys_, shares_memory_, meetings_));
    living_.back()->board.set_place(living_.back()->place());
    living_.back()->start(algorithm_, graph_, asynchronous_);
  }
  void announce() {
    pb::WorkerJob job;
    job.mutable_group()->set_number(++number_);
    for (const auto& worker : living_) {
      if (worker->has_ended()) continue;
      pb::RankGroup::Rank& rank = *job.mutable_group()->add_ranks();
      rank.set_worker(worker->number());
      rank.set_name("worker" + std::to_string(worker->number()));
      rank.set_host(worker->number() % 2 == 0 ? "even" : "odd");
      *rank.mutable_place() = worker->place();
    }
    for (const auto& worker : living_) {
      job.set_worker(worker->number());
      worker->board.post(job);
    }
  }

  const collective::Algorithm algorithm_;
  const std::optional<collective::Graph> graph_;
  const bool asynchronous_;
  const bool with_keys_;
  const bool shares_memory_;
  ToyMeetings meetings_;
  std::vector<std::unique_ptr<ToyWorker>> living_;
  std::vector<std::unique_ptr<ToyWorker>> dead_;
  std::uint32_t next_ = 0;
  std::uint64_t number_ = 0;
  int looks_ = 0;
};

}  // namespace taut::test
