#include "tests/bench/data_plane/medians.hpp"

#include <algorithm>

namespace taut::bench {
namespace {

double median_of(const std::vector<Total>& turns, double Total::*figure) {
  std::vector<double> figures;
  figures.reserve(turns.size());
  for (const Total& turn : turns) figures.push_back(turn.*figure);
  return median(std::move(figures));
}

}  // namespace

Total total_of(const std::vector<Sample>& samples) {
  Total total;
  CpuTime workers;
  CpuTime servers;
  double moved = 0;
  for (const Sample& sample : samples) {
    total.rate += sample.rate();
    total.median_us = std::max(total.median_us, sample.median_us);
    workers += sample.cpu;
    servers += sample.server_cpu;
    moved += sample.pattern == "push+pull" ? 2 * sample.gigabytes : sample.gigabytes;
  }
  if (moved <= 0) return total;
  total.worker_io = workers.io / moved;
  total.worker_rest = workers.rest() / moved;
  // Each worker has seen all that the servers used, in about the same time.
  const double seen = moved * static_cast<double>(samples.size());
  total.server_io = servers.io / seen;
  total.server_rest = servers.rest() / seen;
  total.cpu_s_a_gigabyte = workers.all / moved + servers.all / seen;
  return total;
}

void Medians::add(const std::string& way, std::uint64_t bytes, const std::string& pattern,
                  Total total) {
  turns_[{way, bytes, pattern}].push_back(total);
}

Total Medians::of(const std::string& way, std::uint64_t bytes, const std::string& pattern) const {
  const std::vector<Total>& found = turns(way, bytes, pattern);
  return {median_of(found, &Total::rate),
          median_of(found, &Total::median_us),
          median_of(found, &Total::cpu_s_a_gigabyte),
          median_of(found, &Total::worker_io),
          median_of(found, &Total::worker_rest),
          median_of(found, &Total::server_io),
          median_of(found, &Total::server_rest)};
}

double Medians::ratio(const std::string& way, std::uint64_t bytes, const std::string& pattern,
                      const std::string& peer, const std::string& peer_pattern) const {
  const std::vector<Total>& own = turns(way, bytes, pattern);
  const std::vector<Total>& others = turns(peer, bytes, peer_pattern);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(own.size(), others.size()); ++i) {
    if (others[i].rate > 0) ratios.push_back(own[i].rate / others[i].rate);
  }
  return median(std::move(ratios));
}

const std::vector<Total>& Medians::turns(const std::string& way, std::uint64_t bytes,
                                         const std::string& pattern) const {
  static const std::vector<Total> kNone;
  const auto found = turns_.find({way, bytes, pattern});
  return found == turns_.end() ? kNone : found->second;
}

}  // namespace taut::bench
