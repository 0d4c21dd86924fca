#pragma once

#include <algorithm>

#include "common/time.hpp"

namespace taut {

/// What is left of a wait in steps that began then: never nothing, so that each step looks once.
[[nodiscard]] inline Duration rest_of(Duration at_most, TimePoint begin) {
  return at_most == Duration::max() ? at_most
                                    : std::max(at_most - (steady_now() - begin), Duration(1));
}

}  // namespace taut
