#pragma once

#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut {

/// Whether a TCP connection to "host:port" is established within `within`; it is closed at once.
/// Errors    unavailable: refused, or no route; timeout: no answer, as behind a firewall;
///           not_found: the host's name is not known. The message is a predicate, "refuses ...".
[[nodiscard]] Result<void> try_to_reach(const std::string& address, Duration within);

/// The address from which this machine reaches "host:port", as a host: "[...]" for IPv6.
/// Errors    not_found: the host's name is not known; unavailable: no route. In a whole sentence.
[[nodiscard]] Result<std::string> local_host_towards(const std::string& address);

}  // namespace taut
