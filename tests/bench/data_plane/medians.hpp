#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/bench/data_plane/measure.hpp"

namespace taut::bench {

inline constexpr const char* kPatterns[] = {"push", "pull", "push+pull"};

/// One pattern of all workers together, in one turn.
struct Total {
  double rate = 0;              // GB/s of payload, one way
  double median_us = 0;         // round trips only
  double cpu_s_a_gigabyte = 0;  // of workers and servers, for each GB moved either way
  // Of that, in the threads that send and receive, and in the others.
  double worker_io = 0;
  double worker_rest = 0;
  double server_io = 0;
  double server_rest = 0;
};

/// samples  of one pattern, one of each worker; not empty
[[nodiscard]] Total total_of(const std::vector<Sample>& samples);

/// What the turns gave, by way, table size and pattern. A way that is absent has zeros.
class Medians {
 public:
  void add(const std::string& way, std::uint64_t bytes, const std::string& pattern, Total total);
  /// The median of each figure.
  [[nodiscard]] Total of(const std::string& way, std::uint64_t bytes,
                         const std::string& pattern) const;
  /// The median over the turns of the rate divided by that of `peer`'s pattern in the same turn; 0
  /// if there is no such turn.
  [[nodiscard]] double ratio(const std::string& way, std::uint64_t bytes,
                             const std::string& pattern, const std::string& peer,
                             const std::string& peer_pattern) const;

 private:
  [[nodiscard]] const std::vector<Total>& turns(const std::string& way, std::uint64_t bytes,
                                                const std::string& pattern) const;

  std::map<std::tuple<std::string, std::uint64_t, std::string>, std::vector<Total>> turns_;
};

}  // namespace taut::bench
