#pragma once

#include <cstdint>

#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/data_message.hpp"

namespace taut {

// Maximum elements of a payload: far above a slice's; products cannot overflow.
inline constexpr std::uint64_t kMaxCount = 1ULL << 40U;

/// Requests for rows also have a payload: the row numbers.
[[nodiscard]] bool carries_payload(DataItem::Kind kind, bool by_rows);

/// Bytes of a payload in layout ROWS. REQUIRES: a kind that from_wire() accepts.
[[nodiscard]] std::uint64_t row_bytes(DataItem::Kind kind, std::uint64_t rows, std::uint64_t width);

/// Converts an item, without its payload, to its form in a header and back.
/// Errors    invalid: an impossible item
void to_wire(const DataItem& item, pb::DataItem& wire);
[[nodiscard]] Result<DataItem> from_wire(pb::DataItem& wire);

/// Where a payload in shared memory is.
void to_wire(const SharedPlace& place, pb::SharedPlace& wire);
[[nodiscard]] SharedPlace place_of(const pb::SharedPlace& wire);

}  // namespace taut
