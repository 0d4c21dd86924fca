#pragma once

// Only the parts of Boost.Outcome that are used: its result.hpp includes all of Boost.System, which
// costs more than a second to compile in every source.
#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/terminate.hpp>
#include <boost/outcome/try.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace taut {

/// The kind of an error, for code that must decide; the message is for people.
enum class ErrorCode : std::uint8_t {
  kInvalid,      // malformed or impossible input: a file, a field, bytes from a peer
  kNotFound,     // a file, a job or a table does not exist
  kExists,       // a name or an address is in use
  kTimeout,      // a deadline passed
  kUnavailable,  // a peer cannot be reached now, or a queue is full
  kStale,        // the sender was declared lost, or names a past epoch
  kMismatch,     // the two sides differ: wire version, job, shape
  kClosed,       // the object was shut down
  kIo,           // the operating system reported an error
};

/// One line: what failed, where, the offending value, and what to do if that is known.
struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string message;
};

template <class T>
using Result = boost::outcome_v2::basic_result<T, Error, boost::outcome_v2::policy::terminate>;

[[nodiscard]] inline Error make_error(ErrorCode code, std::string message) {
  return Error{code, std::move(message)};
}
[[nodiscard]] inline Error invalid(std::string message) {
  return Error{ErrorCode::kInvalid, std::move(message)};
}

/// The value of a successful Result<void>.
[[nodiscard]] inline auto ok() {
  return boost::outcome_v2::success();
}

}  // namespace taut

/// `TAUT_TRY(x, expression)` binds the value, or returns the error to the caller. It is several
/// statements: under an `if` or a loop it needs braces.
#define TAUT_TRY(...) BOOST_OUTCOME_TRY(__VA_ARGS__)
