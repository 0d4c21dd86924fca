#include "proto/data_codec/logged_update_codec.hpp"

#include <fmt/format.h>

#include <optional>

#include "proto/data_codec/item_codec.hpp"

namespace taut {

void add_logged(const DataImages& batch, pb::SliceImages& wire, Message& frames, SharedLink* link) {
  for (const LoggedUpdate& one : batch.logged) {
    pb::SliceImages::Logged& logged = *wire.add_logged();
    logged.set_worker(one.worker.value());
    logged.set_number(one.number);
    to_wire(push_of(one), *logged.mutable_push());
    const auto place = link == nullptr ? std::nullopt : link->lend(one.update.gradient);
    if (place) {
      to_wire(*place, *logged.mutable_push()->mutable_place());
    } else {
      frames.frames.push_back(one.update.gradient);
    }
  }
}

Result<LoggedUpdate> from_wire(pb::SliceImages::Logged& wire) {
  TAUT_TRY(DataItem push, from_wire(*wire.mutable_push()));
  if (push.kind != pb::DataItem::PUSH || wire.push().packed() || push.count > kMaxCount) {
    return invalid(fmt::format("table {} slice {}: {} elements of a logged update",
                               push.table.value(), push.slice.value(), push.count));
  }
  LoggedUpdate logged{
      push.table,      push.slice, WorkerId(wire.worker()), wire.number(), push.count,
      update_of(push), {}};
  if (wire.push().has_place()) logged.lent = place_of(wire.push().place());
  return logged;
}

DataItem push_of(const LoggedUpdate& logged) {
  DataItem push;
  push.kind = pb::DataItem::PUSH;
  push.table = logged.table;
  push.slice = logged.slice;
  push.count = logged.count;
  push.clock = logged.update.clock;
  push.gradient_norm = logged.update.norm;
  push.weight = logged.update.weight;
  push.encoding = logged.update.encoding;
  push.by_rows = logged.update.by_rows;
  push.rows = logged.update.rows;
  push.payload = logged.update.gradient;
  return push;
}

Result<void> set_gradient(const Frame& payload, LoggedUpdate& logged) {
  const DataItem push = push_of(logged);
  const bool is_whole =
      push_bytes(push) == payload.size() &&
      (push.by_rows || math::is_well_formed(push.encoding, payload.bytes().data(), push.count));
  if (!is_whole) {
    return invalid(
        fmt::format("table {} slice {}: {} elements of a logged update announced as {}, "
                    "{} bytes received",
                    push.table.value(), push.slice.value(), push.count,
                    math::to_string(push.encoding.codec), payload.size()));
  }
  logged.update.gradient = payload;
  return ok();
}

}  // namespace taut
