#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/ssp/slice_layout.hpp"
#include "proto/data_message.hpp"
#include "server/slice_state.hpp"

namespace taut::server {

struct Outgoing {
  PeerId to;
  DataMessage message;
};

/// Collects answers so that each peer gets one message. A follower gets its values in several: it
/// forwards what has arrived, and a message arrives only as a whole.
class Outbox {
 public:
  explicit Outbox(JobId job) : job_(job) {}

  void add(PeerId to, DataItem item) {
    auto found = std::ranges::find_if(batches_, [to](const Batch& batch) {
      return batch.to == to && batch.items.items.size() < DataItems::kMaxItems &&
             batch.followed_bytes < kMaxFollowedBytes;
    });
    if (found == batches_.end()) found = batches_.insert(batches_.end(), Batch{to, {}, 0});
    if (item.kind == pb::DataItem::FOLLOW_VALUE) found->followed_bytes += item.payload.size();
    found->items.items.push_back(std::move(item));
  }
  void add(const Answer& answer, const SliceState& slice, DataItem::Kind kind,
           Clock stable = Clock()) {
    const Slice& place = slice.place();
    DataItem item;
    item.kind = kind;
    item.table = place.table;
    item.slice = place.slice;
    item.offset = place.offset;
    item.count = place.count;
    item.clock = answer.reader.clock;
    item.version = answer.version;
    item.done = answer.done;
    item.stable = stable;
    if (answer.follows && answer.values.empty()) item.count = 0;
    item.encoding = answer.encoding;
    item.payload = answer.values;
    item.by_rows = slice.rows() != nullptr;
    item.rows = static_cast<std::uint32_t>(answer.reader.rows.size() / sizeof(std::uint64_t));
    add(answer.reader.peer, std::move(item));
  }
  [[nodiscard]] std::vector<Outgoing> take() {
    std::vector<Outgoing> messages;
    for (Batch& batch : batches_) {
      messages.push_back(
          {batch.to, DataMessage{job_, WorkerId(), Incarnation(), std::move(batch.items)}});
    }
    return messages;
  }

 private:
  static constexpr std::size_t kMaxFollowedBytes = 1UL << 20U;

  struct Batch {
    PeerId to;
    DataItems items;
    std::size_t followed_bytes = 0;  // of values for a follower
  };

  JobId job_;
  std::vector<Batch> batches_;
};

}  // namespace taut::server
