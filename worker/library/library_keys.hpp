#pragma once

#include <string>

#include "common/net/security.hpp"
#include "common/result.hpp"

namespace taut::library {

/// Initializes the process once, before first use: a log of warnings on standard error, at the
/// level that TAUTLINE_LOG names.
void prepare_process();

/// A default name for a process: unique on this machine, and most likely elsewhere.
[[nodiscard]] std::string default_name();

/// The credentials of a program that acts as a user.
/// keys  a folder; nullptr: the one that TAUTLINE_KEYS names, or the user's own; empty: no keys
[[nodiscard]] Result<Security> user_keys(const char* keys);
/// The credentials of a member of this name.
[[nodiscard]] Result<Security> member_keys(const char* keys, const std::string& name);
/// The credentials of a follower of this name that relays models: it listens, as servers do.
[[nodiscard]] Result<Security> relay_keys(const char* keys, const std::string& name);

}  // namespace taut::library
