#pragma once

#include <functional>

#include "common/time.hpp"
#include "server/dashboard/api.hpp"

namespace taut::dashboard {

/// An Ask that sends nothing for ten seconds after it has waited a second or longer without an
/// answer, and returns the same error meanwhile: otherwise the one thread for all pages and scrapes
/// would do nothing but wait.
[[nodiscard]] Ask with_pauses(Ask ask, std::function<TimePoint()> now);

}  // namespace taut::dashboard
