#include "cli/views/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/views/draw.hpp"

namespace taut::cli {

bool on_terminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

int terminal_height() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) return size.ws_row;
  return 50;
}

void print_lines(const std::vector<std::string>& lines) {
  const bool is_cut = isatty(STDOUT_FILENO) == 1;
  const auto width = static_cast<std::size_t>(terminal_width());
  for (const std::string& line : lines) fmt::print("{}\n", is_cut ? fit(line, width) : line);
}

void LiveBlock::erase() {
  // Up by the block's height, then clear to the end of the screen.
  if (!shown_.empty()) fmt::print("\x1b[{}A\r\x1b[J", shown_.size());
}

void LiveBlock::draw() {
  const auto width = static_cast<std::size_t>(terminal_width());
  // A line that wraps would make the block higher than its line count.
  for (const std::string& line : shown_) fmt::print("{}\n", fit(line, width - 1));
  std::fflush(stdout);
}

void LiveBlock::show(const std::vector<std::string>& lines) {
  erase();
  shown_ = lines;
  draw();
}

void LiveBlock::print_above(const std::vector<std::string>& lines) {
  erase();
  for (const std::string& line : lines) fmt::print("{}\n", line);
  draw();
}

void LiveBlock::leave() {
  shown_.clear();
}

}  // namespace taut::cli
