#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/math/codec.hpp"
#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/data.pb.h"
#include "proto/pushed_update.hpp"
#include "proto/slice_images.hpp"

namespace taut {

/// One request to, or answer from, a shard about one slice.
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
  Clock stable;   // in answers: updates of the worker before it outlive the primary
  Refusal refusal = pb::DataItem::NONE;
  std::string reason;
  float gradient_norm = 0;    // in pushes: math::UpdateNorm; 0 if not needed
  float weight = 1;           // in pushes: the update's weight; finite, above 0
  WorkerId waits_for;         // in PARKED: whose next update the read waits for
  FollowerId follower;        // in PARKED: whose confirmation the read waits for; 0: none
  bool payload_lost = false;  // it is in shared memory that no handshake covers
  math::Encoding encoding{};  // of the payload; float32 except in pushes and VALUE
  /// For a bucket of a table that is kept by rows, of which it has `rows`; `count` is a row's
  /// length.
  bool by_rows = false;
  std::uint32_t rows = 0;
  /// [count] encoded as in `encoding`; PUSH, PUSH_READ and VALUE carry one. By rows: as in Layout,
  /// also in READ and SNAPSHOT.
  Frame payload;
};

/// The update of a push.
[[nodiscard]] inline Update update_of(const DataItem& push) {
  return {push.clock,  push.payload, push.gradient_norm, push.encoding,
          push.weight, push.by_rows, push.rows};
}
/// A logged update as the push that it was, without its offset in the table.
[[nodiscard]] DataItem push_of(const LoggedUpdate& logged);
/// Bytes of a push's payload, as its encoding has them.
[[nodiscard]] std::uint64_t push_bytes(const DataItem& push);
/// Gives a logged update its gradient. Errors: invalid (not of the size, or not in the encoding,
/// that the update names).
[[nodiscard]] Result<void> set_gradient(const Frame& payload, LoggedUpdate& logged);

/// Items that are sent together: all that are ready go into one message.
struct DataItems {
  /// Further items go into further messages, to limit the frames of a message.
  static constexpr std::size_t kMaxItems = 1024;

  std::vector<DataItem> items;
};

/// A request to a server that keeps parts of coded checkpoints, with the bytes to write.
struct DataPartRequest {
  pb::PartRequest head;
  Frame payload;  // WRITE; otherwise empty
};

/// Its answer, with the bytes that were read.
struct DataPartReply {
  pb::PartReply head;
  Frame payload;  // READ; otherwise empty
};

/// A message of the data plane, as the state machines see it.
struct DataMessage {
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  std::variant<DataItems, pb::DataHello, pb::DataHelloReply, pb::OpenTables, pb::OpenTablesReply,
               DataImages, pb::SliceImagesReply, DataPartRequest, DataPartReply, pb::Describe,
               pb::Description, pb::Confirm, pb::ConfirmReply>
      body;
};

/// Bytes of all payloads: of items, of images and logged updates, and of parts of checkpoints;
/// whether they travel as bytes or in shared memory.
[[nodiscard]] std::uint64_t payload_bytes(const DataMessage& message);

/// Frames as docs/WIRE.md describes them; payloads are shared, not copied.
/// link  given if both sides share memory: payloads there are sent as places
[[nodiscard]] Message encode(const DataMessage& message, SharedLink* link = nullptr);

/// Errors: mismatch (another wire version), invalid (not such a message: every
/// size, count and shape is checked). Never aborts on any bytes.
[[nodiscard]] Result<DataMessage> decode_data(const Message& frames, SharedLink* link = nullptr);

}  // namespace taut
