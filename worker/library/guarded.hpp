#pragma once

#include <exception>
#include <new>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "worker/library/tautline.h"

namespace taut::library {

/// Sets the message that tautline_error() returns to this thread.
tautline_code fail(tautline_code code, std::string message);
tautline_code fail(const Error& error);

/// Runs a call of the interface: turns its error into a code and a one-line message, and never
/// throws.
/// call  returns Result<void>
template <class Call>
tautline_code guarded(const Call& call) {
  try {
    if (const Result<void> done = call(); !done) return fail(done.error());
    return TAUTLINE_OK;
  } catch (const std::bad_alloc&) {
    return fail(TAUTLINE_MEMORY, "there is no memory left");
  } catch (const std::exception& failure) {
    return fail(TAUTLINE_INTERNAL, failure.what());
  } catch (...) {
    return fail(TAUTLINE_INTERNAL, "an exception of an unknown type");
  }
}

/// As above, for a call that waits.
/// call  returns Result<bool>: whether the wait has succeeded
template <class Call>
tautline_code guarded_wait(const Call& call) {
  bool is_there = false;
  const tautline_code code = guarded([&]() -> Result<void> {
    TAUT_TRY(is_there, call());
    return ok();
  });
  return code == TAUTLINE_OK && !is_there ? fail(TAUTLINE_AGAIN, "not yet") : code;
}

/// Converts a caller's wait in seconds.
/// Errors    invalid: NaN, negative, or longer than 30 years
[[nodiscard]] Result<Duration> to_wait(double wait_s);

/// The limit set by tautline_set_patience().
[[nodiscard]] Duration patience();

}  // namespace taut::library
