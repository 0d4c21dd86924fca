#pragma once

#include <memory>
#include <optional>

#include "common/time.hpp"

namespace taut::cli {

/// Standard input key by key, without echo, while this object lives; then the terminal is restored,
/// even if an exception ends it. If standard input is not a terminal, there are no keys.
/// Thread    one, one object at a time
class KeyInput {
 public:
  KeyInput();
  ~KeyInput();
  KeyInput(const KeyInput&) = delete;
  KeyInput& operator=(const KeyInput&) = delete;

  /// The next key; nullopt after `within`, or on a signal.
  [[nodiscard]] std::optional<char> next(Duration within);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace taut::cli
