#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// What follows from a job's members as a whole. It is kept, because every message asks for it, and
/// with a thousand workers looking at each of them would be too dear.
class Roster {
 public:
  Roster() = default;
  explicit Roster(const pb::StoredJob& stored);

  /// A member that works has finished.
  /// leaves  it was to leave before
  void note_finished(bool leaves) {
    --working_;
    if (!leaves) --staying_;
    ++finished_;
  }

  /// How many have neither finished nor been lost.
  [[nodiscard]] std::uint32_t working() const { return working_; }
  /// How many of those are not to leave.
  [[nodiscard]] std::uint32_t staying() const { return staying_; }
  [[nodiscard]] std::uint32_t finished() const { return finished_; }
  /// How many were lost, and leave at a clock that is not known yet.
  [[nodiscard]] std::uint32_t leaving() const { return leaving_; }
  /// How many leave at a clock that is known and are not past.
  [[nodiscard]] std::uint32_t left() const { return left_; }
  [[nodiscard]] std::uint32_t past() const { return past_; }
  /// Slots without an owner, because it was lost or never joined; the lowest first.
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
