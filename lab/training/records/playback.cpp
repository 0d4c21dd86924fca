#include "lab/training/records/playback.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace taut::lab {
namespace {

constexpr Duration kFirstWidth{100};

/// Enough bins to keep all rows together to a few million numbers.
std::size_t bins_for(std::size_t rows) {
  constexpr std::size_t kNumbers = 2'000'000;
  // Even, since two neighbours are merged.
  return std::clamp(kNumbers / std::max<std::size_t>(rows, 1) / 2 * 2, Playback::kMinBins,
                    Playback::kMaxBins);
}

}  // namespace

void Playback::open(const Topology& topology, std::uint32_t servers, std::uint32_t shards,
                    std::uint32_t workers) {
  constexpr double kGbitPerByteAndUs = 8e-3;
  for (const Topology::Host& host : topology.hosts()) hosts_.push_back({host.name, {}, {}});
  for (std::uint32_t i = 0; i < servers; ++i) {
    hosts_[topology.host_of(topology.server_node(i))].servers.push_back(i);
  }
  for (std::uint32_t i = 0; i < workers; ++i) {
    hosts_[topology.host_of(topology.worker_node(i))].workers.push_back(i);
  }
  for (const Pipe& pipe : topology.pipes()) {
    links_.push_back({pipe.name, kGbitPerByteAndUs / pipe.us_per_byte});
  }
  shards_ = shards;
  workers_ = workers;
  const auto used = static_cast<std::size_t>(
      std::ranges::count_if(hosts_, [](const Host& host) { return host.has_processes(); }));
  // Rows with sums: what a host's processes do, and its links.
  constexpr std::size_t kOfHost = 6;
  const std::size_t rows = kOfHost * used + 2 * (topology.devices().size() + workers);
  const std::size_t values = std::size_t{2} * workers + 1;  // the last one: the bound
  bins_.emplace(row_of(links_.size()), values, bins_for(rows), kFirstWidth);
  allowed_.assign(std::size_t{servers} * shards, TimeBins::kNone);
}

void Playback::spend(std::size_t host, State state, TimePoint begin, TimePoint end) {
  bins_->add(row_of(host, state), begin, end, static_cast<double>((end - begin).count()));
}

void Playback::pass(const Topology::Passage& passage) {
  bins_->add(row_of(passage.pipe), passage.begin, passage.end, passage.busy_us);
}

void Playback::reach(std::uint32_t worker, Clock clock, TimePoint now) {
  bins_->set(worker, now, static_cast<std::int32_t>(clock.value()));
}

void Playback::compute(std::uint32_t worker, Clock clock, TimePoint now) {
  bins_->set(workers_ + worker, now, static_cast<std::int32_t>(clock.value()));
}

void Playback::leave(std::uint32_t worker, TimePoint now) {
  bins_->set(worker, now, TimeBins::kNone);
  bins_->set(workers_ + worker, now, TimeBins::kNone);
}

std::vector<std::vector<std::int32_t>> Playback::clocks(std::size_t count) const {
  std::vector<std::vector<std::int32_t>> clocks;
  std::vector<std::int32_t> slowest(count, std::numeric_limits<std::int32_t>::max());
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const std::vector<std::int32_t> reached = bins_->values(worker, count);
    clocks.push_back(bins_->values(workers_ + worker, count));
    for (std::size_t bin = 0; bin < count; ++bin) {
      if (reached[bin] == TimeBins::kNone) continue;
      slowest[bin] = std::min(slowest[bin], reached[bin]);
      // It waits for its first parameters.
      if (clocks.back()[bin] == TimeBins::kNone) clocks.back()[bin] = 0;
    }
  }
  for (std::vector<std::int32_t>& row : clocks) {
    for (std::size_t bin = 0; bin < count; ++bin) {
      if (row[bin] != TimeBins::kNone) row[bin] = std::max(row[bin], slowest[bin]);
    }
  }
  return clocks;
}

void Playback::finish(const Totals& before, const Totals& after, std::optional<double> loss,
                      TimePoint now) {
  const auto add = [&](std::size_t row, double amount) { bins_->add(row, now, now, amount); };
  add(kFinished, static_cast<double>(after.clocks - before.clocks));
  add(kReads, static_cast<double>(after.reads - before.reads));
  add(kStaleness, after.staleness - before.staleness);
  if (!loss || !std::isfinite(*loss)) return;
  add(kLoss, *loss);
  add(kLosses, 1);
}

void Playback::test(const Test& test) {
  // A worker that takes over the tests may repeat the last one.
  if (!tests_.empty() && test.clock <= tests_.back().clock) return;
  tests_.push_back(test);
}

void Playback::bound(std::uint32_t server, std::uint32_t shard, Slack slack, TimePoint now) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto clocks = static_cast<std::int32_t>(std::min(slack.clocks(), kMax));
  std::int32_t& allowed = allowed_[std::size_t{server} * shards_ + shard];
  if (std::exchange(allowed, clocks) != clocks) set_bound(now);
}

void Playback::lose(std::uint32_t server, TimePoint now) {
  const auto first = allowed_.begin() + static_cast<std::ptrdiff_t>(std::size_t{server} * shards_);
  std::fill(first, first + shards_, TimeBins::kNone);
  set_bound(now);
}

void Playback::set_bound(TimePoint now) {
  const std::int32_t largest = std::ranges::max(allowed_);
  // After the last shard is lost, the newest bound remains.
  if (largest == TimeBins::kNone || std::exchange(bound_, largest) == largest) return;
  bound_moves_ = true;
  bins_->set(std::size_t{2} * workers_, now, largest);
}

std::vector<std::int32_t> Playback::bounds(std::size_t count) const {
  if (!bound_moves_) return {};
  return bins_->values(std::size_t{2} * workers_, count);
}

std::span<const double> Playback::spent_us(std::size_t host, State state) const {
  return bins_->sums(row_of(host, state));
}

std::span<const double> Playback::busy_us(std::size_t link) const {
  return bins_->sums(row_of(link));
}

}  // namespace taut::lab
