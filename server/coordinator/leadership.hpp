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

  /// This process's term, while it leads. Terms rise from each leader to the next.
  [[nodiscard]] virtual std::optional<std::int64_t> term() const = 0;
  /// The address of the newest leader that is known; empty: none is.
  [[nodiscard]] virtual std::string leader() const = 0;
  /// Ends this process's term, if it leads: it cannot do what a leader does, and another one may.
  virtual void resign() = 0;
};

}  // namespace taut
