#pragma once

#include <string>

#include "common/time.hpp"

namespace taut {

/// Decides when a coordinator's silence, or the end of it, is logged: once when it has been
/// silent for the limit, then rarely, and when it answers again. Thread: its owner's.
class SilenceWatch {
 public:
  SilenceWatch(std::string peer, Duration limit, TimePoint now);

  /// A message has arrived. Returns the line to log, or an empty one.
  [[nodiscard]] std::string heard(TimePoint now);
  /// The line to log now, or an empty one.
  [[nodiscard]] std::string tick(TimePoint now);

 private:
  const std::string peer_;
  const Duration limit_;
  TimePoint last_;  // last message, or start of the wait
  TimePoint next_;  // line
  bool is_silent_ = false;
  bool was_heard_ = false;
};

}  // namespace taut
