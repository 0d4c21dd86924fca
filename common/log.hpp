#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace taut::log {

enum class Format : std::uint8_t { kText, kJson };

struct Options {
  std::string role;  // "server", "worker", "cli": part of every line
  std::string name;  // the process's name
  Format format = Format::kText;
  std::string level = "info";  // trace, debug, info, warn, error
  std::string file;            // empty: standard error
};

/// Checks the name of `Options::level`. Errors: invalid.
[[nodiscard]] Result<void> check_level(const std::string& name);

/// Sets up the process's one logger. Errors: invalid level, a file that cannot be opened.
/// Thread: main, before any other thread logs.
[[nodiscard]] Result<void> start(const Options& options);

/// Sets the fields of this thread's later lines; a negative number omits the field.
void set_context(std::int64_t rank, std::int64_t clock);
inline void clear_context() {
  set_context(-1, -1);
}
/// Sets the epoch of the running job in the lines of every thread; a negative number omits it.
/// Thread: any.
void set_epoch(std::int64_t epoch);

/// Flushes the log.
void stop();

/// The number of bytes of all lines so far. Thread: any.
[[nodiscard]] std::uint64_t position();

struct Excerpt {
  std::uint64_t begin = 0;  // position of its first byte; later than requested if dropped
  std::string text;
};
/// The lines from this position on, at most `limit` bytes. The newest 512 KiB are kept, or half of
/// that after older lines are dropped. Thread: any.
[[nodiscard]] Excerpt read_from(std::uint64_t position, std::size_t limit);

enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };

/// Formats and writes one line, if the level is logged. Callers use the functions below, which
/// check the text against the arguments at compile time. Thread: any.
void write(Level level, fmt::string_view text, fmt::format_args args);

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kDebug, text, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kInfo, text, fmt::make_format_args(args...));
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kWarn, text, fmt::make_format_args(args...));
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::kError, text, fmt::make_format_args(args...));
}

}  // namespace taut::log
