#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/types.hpp"
#include "proto/data.pb.h"
#include "proto/pushed_update.hpp"

namespace taut {

/// A slice as its primary had it at one moment, on its way to the backup.
struct ImageItem {
  TableId table;
  SliceId slice;
  std::uint64_t sequence = 0;  // rises with each image of the slice under one choice of a backup
  Clock version;               // V
  std::int64_t applications = 0;
  std::map<WorkerId, Clock> done;  // of each member, its first update that is not in the values
  Frame values;                    // [count] float32
  std::vector<Frame> states;       // the same shape each
  /// Of an image that was received: values and states are in the sender's memory, `lent_bytes`
  /// each; empty: they are here.
  std::vector<SharedPlace> lent;
  std::uint64_t lent_bytes = 0;
  /// Of a bucket of a table that is kept by rows: how many rows the image has, which may be spread
  /// over several messages, and how many were dropped since the image `base`, which it continues;
  /// 0: it has all rows.
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;
  std::uint64_t base = 0;
  /// Of the rows in this message: [n] numbers ascending, 8 bytes each, then [n] the clocks of their
  /// last updates; kDropped: the row was dropped, and values and states have no place for it.
  Frame keys;
  static constexpr std::int64_t kDropped = -1;
};

/// A worker's update on its way to the backup, which has it before it counts.
struct LoggedUpdate {
  TableId table;
  SliceId slice;
  WorkerId worker;
  std::uint64_t number = 0;  // rises over a slice's updates under one choice of a backup
  std::uint64_t count = 0;   // elements
  Update update;
  /// Of one that was received: the gradient is in the sender's memory.
  std::optional<SharedPlace> lent{};
};

/// Images of a shard's slices, and updates of them, from its primary to its backup.
struct DataImages {
  /// Further images go into further messages, as do further updates.
  static constexpr std::size_t kMaxImages = 256;

  ShardId shard;
  std::uint64_t term = 0;
  std::uint64_t copy = 0;
  std::vector<pb::TableSpec> tables;  // until the backup has acknowledged an image
  std::vector<ImageItem> images;
  std::vector<LoggedUpdate> logged;
  /// What the sender shares with a backup of its machine, and whose memory tells when what it lends
  /// is returned; no probe: nothing is lent.
  std::optional<pb::SharedMemory> memory{};
  std::optional<SharedMemoryOffer::Probe> lent_to{};
};

}  // namespace taut
