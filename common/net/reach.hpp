#pragma once

#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut {

/// Whether a TCP connection to "host:port" is established within the time; it is closed at once.
/// Errors    unavailable: refused, or no route; timeout: no answer, as behind a firewall;
///           not_found: the host's name is not known. The message is a predicate, "refuses ...".
[[nodiscard]] Result<void> try_to_reach(const std::string& address, Duration within);

/// The address of this machine with which it reaches "host:port", as a host: "[...]" of IPv6.
/// Errors    not_found: the host's name is not known; unavailable: no route. A whole sentence.
[[nodiscard]] Result<std::string> local_host_towards(const std::string& address);

}  // namespace taut
