#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/engine/plan/choice.hpp"

namespace taut::plan {

/// A sequence of uses of one buffer between which its value is kept.
struct Stay {
  Residency residency;
  std::size_t first = 0;  // into the buffer's uses
  std::size_t uses = 0;   // their number, around the cycle
  std::uint64_t place_bytes = 0;
  bool permanent = false;

  [[nodiscard]] std::uint64_t offset() const { return residency.offset.value(); }
  [[nodiscard]] std::uint64_t top() const { return offset() + place_bytes; }
};

/// The stay that starts at a buffer's use `first`, with the copies that the choice requests at its
/// ends and the steps that are reserved for them.
[[nodiscard]] Stay make_stay(const Problem& problem, const Choice& choice, std::size_t buffer,
                             std::size_t first, std::size_t uses);

/// All stays of a choice, without addresses.
[[nodiscard]] std::vector<Stay> stays_of(const Problem& problem, const Choice& choice);

/// Whether two stays share a step of the cycle.
[[nodiscard]] bool meet(const Residency& a, const Residency& b, std::size_t steps);

struct Packing {
  std::vector<Stay> stays;  // by rising offset
  std::uint64_t moved_bytes = 0;
  std::size_t splits = 0;
  std::size_t trims = 0;  // stays that gave up the steps reserved for their copies
};

/// Gives every stay an offset, so that stays which meet do not overlap and none ends above the
/// budget: first fit, in several orders, and takes the best result. If no address range is free,
/// stays give up their copies' steps and then carries, so it succeeds for every choice.
/// Source    first fit by falling size: Pisarchyk, Lee, "Efficient Memory Management for Deep
///           Neural Net Inference", MLSys On-Device Intelligence Workshop 2020, section 5
[[nodiscard]] Packing pack(const Problem& problem, const Choice& choice);

/// Lengthens stays in place where the memory is free, so that their copies can overlap compute
/// steps. Returns the number of steps added in all.
std::size_t hide_copies(const Problem& problem, std::vector<Stay>& stays);

}  // namespace taut::plan
