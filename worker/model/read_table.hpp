#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/result.hpp"

namespace taut::model {

/// Elements [first, first + out.size()) of a graph's table number `table`.
using ReadTable =
    std::function<Result<void>(std::size_t table, std::uint64_t first, std::span<float> out)>;

}  // namespace taut::model
