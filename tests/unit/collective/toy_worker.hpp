#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/shared_arena.hpp"
#include "tests/unit/collective/toy_meetings.hpp"
#include "worker/collective/rank_endpoint.hpp"
#include "worker/collective/replica_group.hpp"

namespace taut::test {

/// A worker that trains numbers with momentum, in a thread, until it is told to die.
class ToyWorker final : public collective::ReplicaValues {
 public:
  ToyWorker(std::uint32_t number, Clock first, bool with_keys, bool shares_memory,
            ToyMeetings& meetings)
      : number_(number), first_(first), meetings_(meetings) {
    for (const std::size_t size : kTables) {
      gradients_.emplace_back(size);
      arrays_.emplace_back(size, 0.0F);
      arrays_.emplace_back(size, 0.0F);
    }
    rank_ = collective::listen_as_rank("127.0.0.1:0", with_keys, board).value();
    if (shares_memory) arena_ = SharedArena::create().value();
  }
  ~ToyWorker() override {
    if (thread_.joinable()) thread_.join();
  }
  ToyWorker(const ToyWorker&) = delete;
  ToyWorker& operator=(const ToyWorker&) = delete;

  void start(collective::Algorithm algorithm, std::optional<collective::Graph> graph,
             bool asynchronous, Duration limit = std::chrono::seconds(20)) {
    limit_ = limit;
    graph_ = graph;
    asynchronous_ = asynchronous;
    thread_ = std::thread([this, algorithm] {
      error = run(algorithm);
      has_ended_ = true;
    });
  }
  /// At once, wherever it is; what it has sent may or may not arrive.
  void die() { dies_ = true; }
  void join() { thread_.join(); }

  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] Clock clock() const { return Clock(clock_.load()); }
  [[nodiscard]] const pb::RankPlace& place() const { return rank_.place; }

  collective::RankBoard board;
  std::string error;                           // read after join()
  std::map<Clock, std::vector<float>> values;  // after each clock that it applied, or was given
  std::uint64_t sent = 0;                      // bytes to other ranks

 private:
  std::vector<std::size_t> gradient_sizes() const override { return kTables; }
  void read_gradient(std::size_t table, std::span<float> into) override {
    std::ranges::copy(gradients_[table], into.begin());
  }
  void write_gradient(std::size_t table, std::span<const float> mean) override {
    std::ranges::copy(mean, gradients_[table].begin());
  }
  void write_no_gradient(std::size_t table) override { std::ranges::fill(gradients_[table], 0.0F); }
  void read_values(std::size_t table, std::span<float> into) override {
    std::ranges::copy(arrays_[2 * table], into.begin());
  }
  void write_mixed(std::size_t table, std::span<const float> before,
                   std::span<const float> mixed) override {
    if (!std::ranges::equal(before, arrays_[2 * table])) error = "mixed with other values";
    std::ranges::copy(mixed, arrays_[2 * table].begin());
  }
  std::vector<std::size_t> array_sizes() const override {
    std::vector<std::size_t> sizes;
    for (const auto& array : arrays_) sizes.push_back(array.size());
    return sizes;
  }
  void read_array(std::size_t array, std::span<float> into) override {
    std::ranges::copy(arrays_[array], into.begin());
  }
  void write_array(std::size_t array, std::span<const float> from) override {
    std::ranges::copy(from, arrays_[array].begin());
  }
  Result<void> begin() override {
    for (std::size_t array = 0; array < arrays_.size(); array += 2) {
      std::ranges::fill(arrays_[array], 1.0F);
    }
    return ok();
  }

  std::string run(collective::Algorithm algorithm) {
    collective::ReplicaGroup::Options options;
    options.job = 5;
    options.first = first_;
    options.algorithm = algorithm;
    options.graph = graph_;
    options.asynchronous = asynchronous_;
    options.shared_memory = arena_;
    options.bucket = Bytes(2000);
    options.limit = limit_;
    options.patience = std::chrono::milliseconds(40);
    options.stops = [this] { return dies_.load(); };
    collective::ReplicaGroup group(*this, board, *rank_.endpoint, options);
    Result<void> trained = train(group);
    if (dies_) {
      rank_.endpoint.reset();
      return "";
    }
    if (!trained) return trained.error().message;
    group.leave();
    sent = group.traffic().sent;
    return error;
  }

  Result<void> train(collective::ReplicaGroup& group) {
    collective::Standing standing{.next = first_};
    TAUT_TRY(standing, group.join(standing));
    group.set_values();
    TAUT_TRY(meet(group, standing));
    clock_ = standing.next.value();
    // The others may have ended all clocks while it joined: then it is given the last values.
    if (standing.next >= Clock(kClocks)) values[standing.next - 1] = arrays_[2];
    while (standing.next < Clock(kClocks)) {
      const Clock clock = standing.next;
      group.begin_clock();
      if (group.computes(clock)) compute(group, clock);
      TAUT_TRY(const bool is_exchanged, group.exchange(standing));
      if (is_exchanged) {
        // Zero, where all that would have computed it are gone.
        if (gradients_[0][0] != 1.0F && gradients_[0][0] != 0.0F) {
          return invalid("the mean of ones is not one");
        }
        if (!graph_ || group.computes(clock)) apply();
        group.set_values();
        standing.next = clock.next();
        standing.has_met = !meets(clock);
      }
      TAUT_TRY(meet(group, standing));
      values[clock] = arrays_[2];
      clock_ = standing.next.value();
      if (dies_) return make_error(ErrorCode::kClosed, "died");
    }
    return ok();
  }

  void compute(collective::ReplicaGroup& group, Clock clock) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (std::size_t table = kTables.size(); table-- > 0;) {
      for (std::size_t i = 0; i < kTables[table]; ++i) {
        const auto noise = static_cast<float>(
            (number_ * 7919 + i * 31 + static_cast<std::size_t>(clock.value())) % 101);
        gradients_[table][i] = 0.1F * arrays_[2 * table][i] + 0.01F * noise;
      }
      gradients_[0][0] = 1.0F;
      group.publish(table);
    }
  }

  void apply() {
    for (std::size_t table = 0; table < kTables.size(); ++table) {
      std::vector<float>& values = arrays_[2 * table];
      std::vector<float>& velocity = arrays_[2 * table + 1];
      for (std::size_t i = 0; i < values.size(); ++i) {
        velocity[i] = 0.9F * velocity[i] + gradients_[table][i];
        values[i] -= 0.05F * velocity[i];
      }
    }
  }

  /// Servers return values that are a little different, and the same to all.
  Result<void> meet(collective::ReplicaGroup& group, collective::Standing& standing) {
    while (!standing.has_met) {
      const Clock clock = standing.next - 1;
      if (group.computes(clock)) {
        meetings_.push(number_, clock, arrays_);
        if (!meetings_.is_over(clock)) {
          if (dies_) return make_error(ErrorCode::kClosed, "died");
          if (group.has_news()) {
            TAUT_TRY(standing, group.join(standing));
          }
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          continue;
        }
        take_result(clock);
        group.set_values();
      }
      TAUT_TRY(group.spread_meeting(standing, clock));
    }
    return ok();
  }

  void take_result(Clock clock) {
    if (!graph_) {
      arrays_ = meetings_.result(clock);
      return;
    }
    auto mean = meetings_.mean(clock);
    for (std::size_t array = 0; array < arrays_.size(); array += 2) {
      arrays_[array] = std::move(mean[array]);
    }
  }

  const std::uint32_t number_;
  const Clock first_;
  std::optional<collective::Graph> graph_;
  bool asynchronous_ = false;
  Duration limit_{0};
  ToyMeetings& meetings_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::vector<float>> arrays_;  // values and velocity of each table
  std::shared_ptr<SharedArena> arena_;
  collective::RankEndpoint rank_;
  std::atomic<std::int64_t> clock_ = 0;
  std::atomic<bool> dies_ = false;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

}  // namespace taut::test
