#pragma once

#include <string>

#include "common/result.hpp"

namespace taut::cli {

/// A host's name or numeric address as a numeric address; if it has several, the first that is not
/// loopback.
/// Errors    not_found: the name cannot be resolved
[[nodiscard]] Result<std::string> numeric_address(const std::string& host);

/// This machine's address for others, from the name by which they know it. If the machine itself
/// resolves the name only to loopback (Debian's /etc/hosts), as own_address().
/// Errors    as numeric_address()
[[nodiscard]] Result<std::string> address_for_others(const std::string& host);

/// This machine's address on the route to another one, to which that one can reply. Sends nothing.
/// host      numeric
/// Errors    unavailable: there is no route to it
[[nodiscard]] Result<std::string> own_address_towards(const std::string& host);

/// This machine's address for others: the one on the route out of its own network, or else its
/// first that is not loopback, or else loopback.
[[nodiscard]] std::string own_address();

}  // namespace taut::cli
