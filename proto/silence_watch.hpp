#pragma once

#include <string>

#include "common/time.hpp"

namespace taut {

/// Says when a coordinator's silence, or its end, is worth a line in the log: once when it has been
/// silent for the limit, then seldom, and when it is heard again. Thread: its owner's.
class SilenceWatch {
 public:
  SilenceWatch(std::string peer, Duration limit, TimePoint now);

  /// A message has come. Returns the line to log; empty: none.
  [[nodiscard]] std::string heard(TimePoint now);
  /// The line to log by now; empty: none.
  [[nodiscard]] std::string tick(TimePoint now);

 private:
  const std::string peer_;
  const Duration limit_;
  TimePoint last_;  // heard of it, or began to wait
  TimePoint next_;  // line
  bool is_silent_ = false;
  bool was_heard_ = false;
};

}  // namespace taut
