#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/types.hpp"
#include "proto/control.pb.h"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::collective {

/// Passes the ranks of a job whose workers sum among themselves from the coordinator to the run,
/// and this worker's own place from the run to the coordinator.
/// Thread    any
class RankBoard {
 public:
  struct Ranks {
    std::uint64_t number = 0;  // increases with each change
    std::vector<GroupMember> members;
    std::optional<Rank> own;  // nullopt: this worker is not one of them yet
  };

  /// Takes the ranks of a WorkerJob, unless these or newer ones are known.
  void post(const pb::WorkerJob& job);
  [[nodiscard]] std::shared_ptr<const Ranks> newest() const;
  /// Of the newest ranks; 0 if none are known.
  [[nodiscard]] std::uint64_t number() const { return number_; }

  /// Reports that sums have failed in the group of this number. If its ranks are still the same,
  /// the coordinator gives them another number, so that they form it again.
  void report_broken(std::uint64_t number);
  void set_place(const pb::RankPlace& place);
  void report(pb::Progress& progress) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Ranks> newest_ = std::make_shared<Ranks>();
  std::atomic<std::uint64_t> number_ = 0;
  std::optional<pb::RankPlace> place_;
};

}  // namespace taut::collective
