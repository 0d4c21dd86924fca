#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/data.pb.h"

namespace taut {

/// One thing asked of, or answered by, a shard about one slice.
struct DataItem {
  using Kind = pb::DataItem::Kind;
  using Refusal = pb::DataItem::Refusal;

  Kind kind = pb::DataItem::UNKNOWN;
  TableId table;
  SliceId slice;
  std::uint64_t offset = 0;  // of the first element within the table
  std::uint64_t count = 0;   // elements
  Clock clock;
  Clock version;  // V of the slice, in answers
  Clock done;     // done(reader), in answers
  Refusal refusal = pb::DataItem::NONE;
  std::string reason;
  float gradient_norm = 0;    // in pushes: math::UpdateNorm, 0 where none is wanted
  bool payload_lost = false;  // it lies in shared memory that was not agreed on
  Frame payload;              // [count] float32, little-endian; PUSH, PUSH_READ and VALUE carry one
};

/// Items that travel together: what is ready at once costs one message.
struct DataItems {
  /// More of them go into further messages, so that no message has too many frames.
  static constexpr std::size_t kMaxItems = 1024;

  std::vector<DataItem> items;
};

/// A message of the data plane, as the state machines see it.
struct DataMessage {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  std::variant<DataItems, pb::DataHello, pb::DataHelloReply, pb::OpenTables, pb::OpenTablesReply>
      body;
};

/// Frames as docs/WIRE.md describes them; payloads are shared, not copied.
/// link  where both sides share memory: payloads that lie there travel as places
[[nodiscard]] Message encode(const DataMessage& message, SharedLink* link = nullptr);

/// Errors: mismatch (another wire version), invalid (anything that is not such a message: every
/// size, count and shape is checked). Never aborts, whatever the bytes.
[[nodiscard]] Result<DataMessage> decode_data(const Message& frames, SharedLink* link = nullptr);

}  // namespace taut
