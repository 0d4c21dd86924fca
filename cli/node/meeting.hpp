#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"

namespace taut::cli {

/// What a node announces once it has found the leader.
struct NodeNotice {
  std::uint32_t rank = 0;
  std::string host{};
  std::uint32_t servers = 0;  // that it starts
  std::uint32_t workers = 0;
  std::string build{};  // of its programs
};

/// The folder of a run that all of its nodes see, and in which they find each other:
///
///   keys/             of the run's processes
///   leader            where the coordinator listens, or that the run has ended
///   nodes/RANK.json   each node's notice
///
/// Files of an earlier attempt may still exist until the leader has called clear(); whether an
/// address is of this attempt is known once the coordinator there has answered.
class Meeting {
 public:
  /// attempt  as NodePlace's
  Meeting(std::filesystem::path folder, std::string attempt)
      : folder_(std::move(folder)), attempt_(std::move(attempt)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path keys() const { return folder_ / "keys"; }

  /// Leader only: removes what an earlier attempt has left.
  [[nodiscard]] Result<void> clear();
  /// Leader only: announces where the coordinator listens.
  [[nodiscard]] Result<void> open(const std::string& coordinator);
  /// Leader only: announces that the run has ended, with its exit status. Creates the folder.
  [[nodiscard]] Result<void> close(int status);

  struct Leader {
    std::string coordinator{};        // empty: not yet
    std::optional<int> status{};      // of a run that has ended
    bool is_of_this_attempt = false;  // known of a run that has ended, if the engine counts them
  };
  /// What the leader has announced so far.
  [[nodiscard]] Leader leader() const;

  [[nodiscard]] Result<void> join(const NodeNotice& notice);
  /// Removes a node's notice: its daemons have ended.
  void leave(std::uint32_t rank);
  /// In the order of their ranks. Errors: invalid: a file that is not a notice
  [[nodiscard]] Result<std::vector<NodeNotice>> notices() const;

 private:
  std::filesystem::path folder_;
  std::string attempt_;
};

}  // namespace taut::cli
