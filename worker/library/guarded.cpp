#include "worker/library/guarded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace taut::library {
namespace {

thread_local std::string last_error;
constexpr double kMaxWait_s = 1e9;
std::atomic<std::int64_t> patience_us = 0;  // 0: no limit

tautline_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kExists:
      return TAUTLINE_INVALID;
    case ErrorCode::kNotFound:
      return TAUTLINE_NOT_FOUND;
    case ErrorCode::kTimeout:
      return TAUTLINE_TIMEOUT;
    case ErrorCode::kUnavailable:
      return TAUTLINE_UNAVAILABLE;
    case ErrorCode::kStale:
      return TAUTLINE_STALE;
    case ErrorCode::kMismatch:
      return TAUTLINE_MISMATCH;
    case ErrorCode::kClosed:
      return TAUTLINE_STOPPED;
    case ErrorCode::kIo:
      return TAUTLINE_IO;
  }
  return TAUTLINE_INTERNAL;
}

}  // namespace

tautline_code fail(tautline_code code, std::string message) {
  last_error = std::move(message);
  return code;
}

tautline_code fail(const Error& error) {
  return fail(code_of(error.code), error.message);
}

Result<Duration> to_wait(double wait_s) {
  if (wait_s >= 0 && wait_s <= kMaxWait_s) return from_seconds(wait_s);
  return invalid(
      fmt::format("a wait of {} s is invalid; give 0 to {:.0f} seconds", wait_s, kMaxWait_s));
}

Duration patience() {
  const std::int64_t most = patience_us;
  return most > 0 ? Duration(most) : Duration::max();
}

}  // namespace taut::library

const char* tautline_error(void) {
  return taut::library::last_error.c_str();
}

void tautline_set_patience(double wait_s) {
  using namespace taut;
  // The function cannot report an error: a negative value or NaN counts as 0.
  const double within = wait_s > 0 ? std::min(wait_s, library::kMaxWait_s) : 0;
  library::patience_us = from_seconds(within).count();
}
