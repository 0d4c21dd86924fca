#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace taut::log {

enum class Format : std::uint8_t { kText, kJson };

struct Options {
  std::string role;  // "server", "worker", "cli": stands in every line
  std::string name;  // which of them
  Format format = Format::kText;
  std::string level = "info";  // trace, debug, info, warn, error
  std::string file;            // empty: standard error
};

/// Sets up the process's one logger. Errors: invalid level, a file that cannot be opened.
/// Thread: main, before any other thread logs.
[[nodiscard]] Result<void> start(const Options& options);

/// What this thread's lines carry from now on; a negative number leaves the field out.
void set_context(std::int64_t rank, std::int64_t clock);
inline void clear_context() {
  set_context(-1, -1);
}
/// The epoch of the job under way, in the lines of every thread; a negative number leaves it out.
/// Thread: any.
void set_epoch(std::int64_t epoch);

/// Flushes what was logged.
void stop();

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::debug(text, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::info(text, std::forward<Args>(args)...);
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::warn(text, std::forward<Args>(args)...);
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  spdlog::error(text, std::forward<Args>(args)...);
}

}  // namespace taut::log
