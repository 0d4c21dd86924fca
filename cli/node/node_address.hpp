#pragma once

#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// A host's name or numeric address as a numeric address; of several, the first that is not
/// loopback.
/// Errors    not_found: the name cannot be resolved
[[nodiscard]] Result<std::string> numeric_address(const std::string& host);

/// This machine's address for others, by the name that they have of it. Where the machine itself
/// knows the name as loopback alone (Debian's /etc/hosts), it is as own_address().
/// Errors    as numeric_address()
[[nodiscard]] Result<std::string> address_for_others(const std::string& host);

/// This machine's address on the way to another one: what that one can answer to. Nothing is sent.
/// host      numeric
/// Errors    unavailable: there is no way to it
[[nodiscard]] Result<std::string> own_address_towards(const std::string& host);

/// This machine's address for others: the one on the way to what is beyond its own network, or
/// else its first that is not loopback, or else loopback.
[[nodiscard]] std::string own_address();

}  // namespace taut::cli
