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

/// A slice as its primary had it at one moment, as it is sent to the backups.
struct ImageItem {
  TableId table;
  SliceId slice;
  std::uint64_t sequence = 0;  // rises with every image of the slice under one choice of a backup
  Clock version;               // V
  std::int64_t applications = 0;
  std::map<WorkerId, Clock> done;  // for each member, its first update that is not in the values
  Frame values;                    // [count] float32
  std::vector<Frame> states;       // the same shape each
  /// For an image that was received: values and states are in the sender's memory, `lent_bytes`
  /// each; if empty, they are here.
  std::vector<SharedPlace> lent;
  std::uint64_t lent_bytes = 0;
  /// For a bucket of a table that is kept by rows: how many rows the image has, which may be spread
  /// over several messages, and how many were dropped since the image `base`, which it continues;
  /// base 0: it has all rows.
  std::uint64_t rows = 0;
  std::uint64_t dropped = 0;
  std::uint64_t base = 0;
  /// For the rows in this message: [n] numbers ascending, 8 bytes each, then [n] the clocks of
  /// their last updates; kDropped: the row was dropped, and has no values or states here.
  Frame keys;
  static constexpr std::int64_t kDropped = -1;
};

/// A worker's update as it is sent to the backups, which have it before it counts.
struct LoggedUpdate {
  TableId table;
  SliceId slice;
  WorkerId worker;
  std::uint64_t number = 0;  // rises with every update of the slice under one choice of a backup
  std::uint64_t count = 0;   // elements
  Update update;
  /// For an update that was received: the gradient is in the sender's memory.
  std::optional<SharedPlace> lent{};
};

/// Images of a shard's slices, and updates to them, from its primary to a backup.
struct DataImages {
  /// Further images go into further messages, as do further updates.
  static constexpr std::size_t kMaxImages = 256;

  ShardId shard;
  std::uint64_t term = 0;
  std::uint64_t copy = 0;
  std::vector<pb::TableSpec> tables;  // until the backup has acknowledged an image
  std::vector<ImageItem> images;
  std::vector<LoggedUpdate> logged;
  /// What the sender shares with a backup on its machine, and the process to which it lends;
  /// without a probe nothing is lent.
  std::optional<pb::SharedMemory> memory{};
  std::optional<SharedMemoryOffer::Probe> lent_to{};
};

}  // namespace taut
