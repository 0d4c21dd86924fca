#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// A lab's run from its playback.json: rows of equal bins of virtual time.
struct PlayedRun {
  /// Thousandths of each bin; empty: 0 in all.
  using Shares = std::vector<std::int32_t>;
  enum State : std::uint8_t { kComputing, kWaiting, kPaused, kServing, kAway };
  static constexpr std::size_t kStates = 5;
  static constexpr std::array<const char*, kStates> kStateNames = {"computing", "waiting", "paused",
                                                                   "serving", "away"};

  struct Host {
    std::string name;
    std::size_t workers = 0;
    std::array<Shares, kStates> shares;
  };
  struct Link {
    std::string name;
    double gbit_per_s = 0;
    double busy_share = 0;
    Shares load;
  };
  struct Worker {
    std::string name;
    std::size_t host = 0;
    std::vector<std::int32_t> clock;  // at the end of each bin; negative: not a member
  };
  struct Test {
    double at_s = 0;
    std::int64_t iteration = 0;
    std::optional<double> accuracy;
    std::optional<double> loss;
  };
  /// Of each bin; nullopt if nothing happened in it.
  using Figures = std::vector<std::optional<double>>;

  std::string text;  // the file
  std::string job;
  std::string mode;                   // "BSP", "SSP", "ASYNC"
  std::optional<std::int64_t> slack;  // nullopt: no bound
  double virtual_s = 0;
  double bin_s = 0;
  std::size_t bins = 0;
  std::vector<Host> hosts;
  std::vector<Link> links;
  std::vector<Worker> workers;
  std::vector<Test> tests;
  Figures iterations_per_s;
  Figures loss;
  Figures staleness;
  Figures bound;  // where a policy moves it; nullopt: the job's slack

  /// The bound at the end of a bin; nullopt if there is none.
  [[nodiscard]] std::optional<double> bound_at(std::size_t bin) const;
  /// When a bin ends; the last one ends with the run.
  [[nodiscard]] double end_s(std::size_t bin) const;
  /// A row's share of a bin, from 0 to 1.
  [[nodiscard]] static double share(const Shares& row, std::size_t bin) {
    return row.empty() ? 0 : static_cast<double>(row[bin]) / 1000;
  }
};

/// Errors    not_found; invalid: the file is not a playback, or of another format
[[nodiscard]] Result<PlayedRun> read_played_run(const std::filesystem::path& file);

/// Overload for a text; errors call it `name`.
[[nodiscard]] Result<PlayedRun> parse_played_run(std::string text, const std::string& name);

}  // namespace taut::cli
