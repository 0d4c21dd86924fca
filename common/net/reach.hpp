#pragma once

#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut {

/// Whether a TCP connection to "host:port" is established within the time; it is closed at once.
/// Errors    unavailable: refused, or no route; timeout: no answer, as behind a firewall;
///           not_found: the host's name is not known. The message is a predicate, "refuses ...".
[[nodiscard]] Result<void> try_to_reach(const std::string& address, Duration within);

}  // namespace taut
