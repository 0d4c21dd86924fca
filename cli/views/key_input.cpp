#include "cli/views/key_input.hpp"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace taut::cli {

struct KeyInput::State {
  bool open = false;  // more keys may arrive
  bool changed = false;
  termios before{};
};

KeyInput::KeyInput() : state_(std::make_unique<State>()) {
  if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &state_->before) != 0) return;
  // A command in the background that changed the terminal would be stopped for it.
  if (tcgetpgrp(STDIN_FILENO) != getpgrp()) return;
  termios raw = state_->before;
  // Ctrl-C and Ctrl-Z stay signals.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  state_->changed = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  state_->open = state_->changed;
}

KeyInput::~KeyInput() {
  if (state_->changed) tcsetattr(STDIN_FILENO, TCSANOW, &state_->before);
}

std::optional<char> KeyInput::next(Duration within) {
  const auto wait_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::max(within, Duration::zero()));
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  // Without a terminal this is only a wait that a signal ends.
  const int ready = poll(&input, state_->open ? 1 : 0, static_cast<int>(wait_ms.count()));
  if (ready <= 0) return std::nullopt;
  char key = 0;
  if (read(STDIN_FILENO, &key, 1) == 1) return key;
  state_->open = false;
  return std::nullopt;
}

}  // namespace taut::cli
