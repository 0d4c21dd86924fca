#pragma once

#include <string>
#include <utility>

#include "proto/data_message.hpp"

namespace taut::server {

/// A reply with only the item's table, slice and clock set.
[[nodiscard]] inline DataItem reply_to(const DataItem& item, DataItem::Kind kind) {
  DataItem reply;
  reply.kind = kind;
  reply.table = item.table;
  reply.slice = item.slice;
  reply.clock = item.clock;
  return reply;
}

/// The refusal of an item.
/// reason  in one line
[[nodiscard]] inline DataItem refuse(const DataItem& item, DataItem::Refusal why,
                                     std::string reason) {
  DataItem reply = reply_to(item, pb::DataItem::REFUSED);
  reply.refusal = why;
  reply.reason = std::move(reason);
  return reply;
}

[[nodiscard]] inline bool is_push(const DataItem& item) {
  return item.kind == pb::DataItem::PUSH || item.kind == pb::DataItem::PUSH_READ;
}

}  // namespace taut::server
