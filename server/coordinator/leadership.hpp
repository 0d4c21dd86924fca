#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace taut {

/// Which of several processes coordinates.
/// Thread    any
class Leadership {
 public:
  virtual ~Leadership() = default;

  /// This process's term; nullopt if it does not lead. Terms rise from each leader to the next.
  [[nodiscard]] virtual std::optional<std::int64_t> term() const = 0;
  /// The address of the newest known leader; empty if none is known.
  [[nodiscard]] virtual std::string leader() const = 0;
  /// Ends this process's term, if it leads: it cannot do a leader's work, and another may.
  virtual void resign() = 0;
};

}  // namespace taut
