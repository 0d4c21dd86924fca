#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "common/types.hpp"
#include "lab/training/records/time_bins.hpp"
#include "lab/training/topology.hpp"

namespace taut::lab {

/// The data that replays a training in the lab: over virtual time, in a limited number of bins,
/// what hosts do, how links are loaded, each worker's clock, losses and the staleness of reads; and
/// the tests. It only observes: a training has the same bits with and without it.
class Playback {
 public:
  /// What processes of a host do; the first three are of workers.
  enum class State : std::uint8_t { kComputing, kWaiting, kPaused, kServing };
  static constexpr std::size_t kStates = 4;
  /// The numbers of bins for few rows and for many.
  static constexpr std::size_t kMaxBins = 512;
  static constexpr std::size_t kMinBins = 64;

  struct Host {
    std::string name;
    std::vector<std::uint32_t> servers;
    std::vector<std::uint32_t> workers;
    [[nodiscard]] bool has_processes() const { return !servers.empty() || !workers.empty(); }
  };
  struct Link {
    std::string name;
    double gbit_per_s = 0;
  };
  struct Test {
    Clock clock;
    double at_s = 0;
    std::optional<double> accuracy;
    double loss = 0;
  };
  /// A worker's totals since it began, when a clock is over.
  struct Totals {
    std::int64_t clocks = 0;
    std::uint64_t reads = 0;
    double staleness = 0;  // of all reads together
  };

  /// Sets hosts, links and workers. Called once, before the other methods.
  /// shards  of each server
  void open(const Topology& topology, std::uint32_t servers, std::uint32_t shards,
            std::uint32_t workers);

  void spend(std::size_t host, State state, TimePoint begin, TimePoint end);
  void pass(const Topology::Passage& passage);
  /// A worker has finished the clocks before this one.
  void reach(std::uint32_t worker, Clock clock, TimePoint now);
  /// A worker has what it reads for this clock, and computes it.
  void compute(std::uint32_t worker, Clock clock, TimePoint now);
  /// A worker is no longer a member of the job.
  void leave(std::uint32_t worker, TimePoint now);
  /// A worker has finished clocks between two of its totals.
  /// loss  of the newest; nullopt if unknown
  void finish(const Totals& before, const Totals& after, std::optional<double> loss, TimePoint now);
  void test(const Test& test);
  /// The largest slack that a shard of a server allows from now on, where a policy moves it.
  void bound(std::uint32_t server, std::uint32_t shard, Slack slack, TimePoint now);
  /// A server is lost: its shards no longer allow any slack.
  void lose(std::uint32_t server, TimePoint now);
  /// The training ended. Called once, after the other methods.
  void close(TimePoint end) { bins_->cover(end); }

  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  /// In the order of the topology's pipes.
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const std::vector<Test>& tests() const { return tests_; }
  [[nodiscard]] std::uint32_t workers() const { return workers_; }
  [[nodiscard]] std::uint32_t shards() const { return shards_; }
  [[nodiscard]] Duration bin() const { return bins_->width(); }
  /// Up to the end, or before.
  [[nodiscard]] std::size_t bins(TimePoint end) const { return bins_->count(end); }

  // In each bin; empty if never.
  [[nodiscard]] std::span<const double> spent_us(std::size_t host, State state) const;
  [[nodiscard]] std::span<const double> busy_us(std::size_t link) const;
  [[nodiscard]] std::span<const double> finished() const { return bins_->sums(kFinished); }
  [[nodiscard]] std::span<const double> loss_sums() const { return bins_->sums(kLoss); }
  [[nodiscard]] std::span<const double> losses() const { return bins_->sums(kLosses); }
  [[nodiscard]] std::span<const double> staleness_sums() const { return bins_->sums(kStaleness); }
  [[nodiscard]] std::span<const double> reads() const { return bins_->sums(kReads); }
  /// By worker, at the end of each bin, the clock that it computes, or would compute if it had what
  /// it waits for and all workers had finished the earlier clocks; TimeBins::kNone if it is not a
  /// member. So none is further ahead of the slowest one than the bound allows.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> clocks(std::size_t count) const;
  /// At the end of each bin, the largest slack that any shard allows; TimeBins::kNone if no policy
  /// has moved it. Empty if none ever does.
  [[nodiscard]] std::vector<std::int32_t> bounds(std::size_t count) const;

 private:
  void set_bound(TimePoint now);
  // Rows of the whole training, before those of hosts and links.
  static constexpr std::size_t kFinished = 0;
  static constexpr std::size_t kLoss = 1;
  static constexpr std::size_t kLosses = 2;
  static constexpr std::size_t kStaleness = 3;
  static constexpr std::size_t kReads = 4;
  static constexpr std::size_t kWhole = 5;

  [[nodiscard]] static std::size_t row_of(std::size_t host, State state) {
    return kWhole + host * kStates + static_cast<std::size_t>(state);
  }
  [[nodiscard]] std::size_t row_of(std::size_t link) const {
    return kWhole + hosts_.size() * kStates + link;
  }

  std::vector<Host> hosts_;
  std::vector<Link> links_;
  std::vector<Test> tests_;
  std::uint32_t workers_ = 0;
  std::uint32_t shards_ = 0;
  std::vector<std::int32_t> allowed_;     // by shard of all servers; kNone: nothing
  std::int32_t bound_ = TimeBins::kNone;  // the largest of these
  bool bound_moves_ = false;
  std::optional<TimeBins> bins_;
};

}  // namespace taut::lab
