#pragma once

#include <functional>

#include "common/time.hpp"
#include "server/dashboard/api.hpp"

namespace taut::dashboard {

/// An Ask that asks nothing for ten seconds after it has waited a second or longer without an
/// answer, and gives the same error meanwhile: the one thread of all pages and scrapes would do
/// nothing else.
[[nodiscard]] Ask with_pauses(Ask ask, std::function<TimePoint()> now);

}  // namespace taut::dashboard
