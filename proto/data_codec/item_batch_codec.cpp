#include "proto/data_codec/item_batch_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/data_codec/item_codec.hpp"

namespace taut {
namespace {

constexpr std::size_t kPackBelow = 16UL << 10U;

/// Distributes a message's payload bytes to its items, in their order.
class PayloadReader {
 public:
  PayloadReader(const pb::DataItems& wire, const Message& frames, SharedLink* link)
      : frames_(frames), link_(link) {
    const auto& items = wire.items();
    has_pack_ = std::any_of(items.begin(), items.end(),
                            [](const pb::DataItem& item) { return item.packed(); });
    next_frame_ = has_pack_ ? 2 : 1;
  }

  Result<Frame> take(const pb::DataItem& item, const math::Encoding& encoding) {
    const bool is_possible = item.count() <= kMaxCount;
    const std::uint64_t size = !is_possible ? std::numeric_limits<std::uint64_t>::max()
                               : item.layout() == pb::DataItem::ROWS
                                   ? row_bytes(item.kind(), item.rows(), item.count())
                                   : math::encoded_bytes(encoding, item.count());
    if (item.has_place()) return is_possible ? borrowed(item, size) : lacks(item, 0);
    return item.packed() ? part(item, size) : whole(item, size);
  }

  /// Errors: payload bytes that belong to no item.
  [[nodiscard]] Result<void> finish() const {
    if (next_frame_ != frames_.frames.size()) {
      return invalid(fmt::format("{} payload frames, but the items name {}",
                                 frames_.frames.size() - 1, next_frame_ - 1));
    }
    if (has_pack_ && pack_used_ != frames_.frames[1].size()) {
      return invalid(fmt::format("{} packed bytes, but the items name {}", frames_.frames[1].size(),
                                 pack_used_));
    }
    return ok();
  }

 private:
  Result<Frame> whole(const pb::DataItem& item, std::uint64_t size) {
    if (next_frame_ >= frames_.frames.size()) return lacks(item, 0);
    const Frame& frame = frames_.frames[next_frame_++];
    if (size != frame.size()) return lacks(item, frame.size());
    return frame;
  }
  Result<Frame> part(const pb::DataItem& item, std::uint64_t size) {
    if (frames_.frames.size() < 2) return lacks(item, 0);
    const std::size_t left = frames_.frames[1].size() - pack_used_;
    if (size > left) return lacks(item, left);
    const std::size_t begin = std::exchange(pack_used_, pack_used_ + size);
    return frames_.frames[1].part(begin, size);
  }
  Result<Frame> borrowed(const pb::DataItem& item, std::uint64_t size) {
    return link_->borrow(place_of(item.place()), size);
  }
  static Error lacks(const pb::DataItem& item, std::size_t bytes) {
    return invalid(fmt::format("table {} slice {}: {} elements announced as {}, {} bytes received",
                               item.table(), item.slice(), item.count(),
                               pb::DataItem::ElementType_Name(item.element_type()), bytes));
  }

  const Message& frames_;
  SharedLink* link_;
  bool has_pack_ = false;
  std::size_t next_frame_ = 1;
  std::size_t pack_used_ = 0;
};

}  // namespace

Result<DataItems> from_wire(pb::DataItems& wire, const Message& frames, SharedLink* link) {
  if (static_cast<std::size_t>(wire.items_size()) > DataItems::kMaxItems) {
    return invalid(fmt::format("{} items in one message; the limit is {}", wire.items_size(),
                               DataItems::kMaxItems));
  }
  DataItems batch;
  batch.items.reserve(static_cast<std::size_t>(wire.items_size()));
  PayloadReader payloads(wire, frames, link);
  for (pb::DataItem& one : *wire.mutable_items()) {
    TAUT_TRY(DataItem item, from_wire(one));
    item.payload_lost = one.has_place() && link == nullptr;
    if (one.payload() && !item.payload_lost) {
      TAUT_TRY(item.payload, payloads.take(one, item.encoding));
      if (!item.by_rows &&
          !math::is_well_formed(item.encoding, item.payload.bytes().data(), item.count)) {
        return invalid(
            fmt::format("table {} slice {}: places of {} that do not ascend, or that "
                        "are not the slice's",
                        one.table(), one.slice(), math::to_string(item.encoding.codec)));
      }
    }
    batch.items.push_back(std::move(item));
  }
  TAUT_TRY(payloads.finish());
  return batch;
}

void add_items(const DataItems& batch, pb::DataItems& wire, Message& frames, SharedLink* link) {
  const auto pack = std::make_shared<std::vector<std::byte>>();
  std::vector<Frame> large;
  wire.mutable_items()->Reserve(static_cast<int>(batch.items.size()));
  for (const DataItem& item : batch.items) {
    pb::DataItem& one = *wire.add_items();
    to_wire(item, one);
    if (!carries_payload(item.kind, item.by_rows)) continue;
    const auto place = link == nullptr ? std::nullopt : link->lend(item.payload);
    if (place) {
      to_wire(*place, *one.mutable_place());
    } else if (item.payload.size() < kPackBelow) {
      one.set_packed(true);
      const auto bytes = item.payload.bytes();
      pack->insert(pack->end(), bytes.begin(), bytes.end());
    } else {
      large.push_back(item.payload);
    }
  }
  if (std::ranges::any_of(wire.items(), &pb::DataItem::packed)) {
    frames.frames.emplace_back(pack, std::span<const std::byte>(*pack));
  }
  for (Frame& frame : large) frames.frames.push_back(std::move(frame));
}

}  // namespace taut
