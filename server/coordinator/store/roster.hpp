#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// A summary of a job's members. It is cached because every message uses it: with a thousand
/// workers, counting them per message would be too expensive.
class Roster {
 public:
  Roster() = default;
  explicit Roster(const pb::StoredJob& stored);

  /// Notes that a working member has finished.
  /// leaves  whether it had been ordered to leave
  void note_finished(bool leaves) {
    --working_;
    if (!leaves) --staying_;
    ++finished_;
  }

  /// How many have neither finished nor been lost.
  [[nodiscard]] std::uint32_t working() const { return working_; }
  /// How many of those were not ordered to leave.
  [[nodiscard]] std::uint32_t staying() const { return staying_; }
  [[nodiscard]] std::uint32_t finished() const { return finished_; }
  /// How many were lost and leave at a clock that is not known yet.
  [[nodiscard]] std::uint32_t leaving() const { return leaving_; }
  /// How many leave at a known clock and are not past.
  [[nodiscard]] std::uint32_t left() const { return left_; }
  [[nodiscard]] std::uint32_t past() const { return past_; }
  /// Slots whose owner was lost or never joined; the lowest first.
  [[nodiscard]] const std::vector<std::uint32_t>& free_slots() const { return free_slots_; }
  /// The newest member with this incarnation, or -1.
  [[nodiscard]] int find(Incarnation incarnation) const;

 private:
  std::uint32_t working_ = 0;
  std::uint32_t staying_ = 0;
  std::uint32_t finished_ = 0;
  std::uint32_t leaving_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t past_ = 0;
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<std::uint64_t, int> newest_;  // by incarnation
};

}  // namespace taut
