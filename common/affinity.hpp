#pragma once

#include <string>

#include "common/result.hpp"

namespace taut {

/// Keeps this process, threads to come included, on the processors of a list such as "0,2-3".
/// Errors    invalid: a list that cannot be read, or a processor that is not there
/// Thread    main, before others start
[[nodiscard]] Result<void> pin_process(const std::string& processors);

}  // namespace taut
