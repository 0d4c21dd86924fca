#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace taut::data {

/// A label, and 32 x 32 pixels of three colours.
inline constexpr std::size_t kCifar10RecordBytes = 1 + 3 * 32 * 32;

/// The number of records in one of CIFAR-10's binary batches.
/// name      of the file, for messages
/// Errors    invalid: no whole number of records, none, or a label above 9
[[nodiscard]] Result<std::uint64_t> parse_cifar10(const std::string& bytes,
                                                  const std::string& name);

}  // namespace taut::data
