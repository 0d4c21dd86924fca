#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/collective/algorithms.hpp"

namespace taut::bench {

/// Where a process is among those that sum, and the folder through which they find each other.
struct Place {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::filesystem::path folder;
};

/// One way to sum values over processes.
class Way {
 public:
  virtual ~Way() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// This process's values, which become the sum; writable outside of sum().
  [[nodiscard]] virtual std::span<float> values(std::uint64_t count) = 0;
  /// Sums the values that were given last.
  virtual void sum() = 0;
};

/// Ours. Throws std::runtime_error.
/// with_keys  through CURVE, as ranks of a cluster that has keys
/// more       of its name, which is another one for each way
[[nodiscard]] std::unique_ptr<Way> our_way(const Place& place, collective::Algorithm algorithm,
                                           bool shares_memory, bool with_keys,
                                           std::uint64_t message_bytes, std::uint64_t window_bytes,
                                           const std::string& more);

/// Gloo's, with its default algorithm; nullptr: it was not found when this was built.
[[nodiscard]] std::unique_ptr<Way> gloo_way(const Place& place);

/// What a process has written into the folder under a name, when it has; at most 30 s.
[[nodiscard]] std::string read_when_written(const std::filesystem::path& file);
void write_whole(const std::filesystem::path& file, const std::string& text);

}  // namespace taut::bench
