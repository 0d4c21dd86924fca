#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace taut::cli {

/// Whether standard output is a terminal that can draw over lines: not TERM=dumb.
[[nodiscard]] bool on_terminal();
/// Its width in characters; 80 if unknown.
[[nodiscard]] int terminal_width();
/// Its height in lines; 50 if unknown.
[[nodiscard]] int terminal_height();
/// Prints lines; if standard output is a terminal, cut to its width.
void print_lines(const std::vector<std::string>& lines);

/// Lines at the end of standard output that are redrawn in place. Thread: one.
class LiveBlock {
 public:
  LiveBlock() = default;
  ~LiveBlock() { leave(); }
  LiveBlock(const LiveBlock&) = delete;
  LiveBlock& operator=(const LiveBlock&) = delete;

  /// Draws `lines`, cut to the terminal's width, over what the last call drew.
  void show(const std::vector<std::string>& lines);
  /// Prints permanent lines above the block.
  void print_above(const std::vector<std::string>& lines);
  /// Leaves the block on the screen; the next show() starts a new one.
  void leave();

 private:
  void erase();
  void draw();

  std::vector<std::string> shown_;
};

}  // namespace taut::cli
