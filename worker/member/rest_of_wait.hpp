#pragma once

#include <algorithm>

#include "common/time.hpp"

namespace taut {

/// What is left of a wait that began at `begin`: never 0, so that each of its steps looks once.
[[nodiscard]] inline Duration rest_of(Duration at_most, TimePoint begin) {
  return at_most == Duration::max() ? at_most
                                    : std::max(at_most - (steady_now() - begin), Duration(1));
}

}  // namespace taut
