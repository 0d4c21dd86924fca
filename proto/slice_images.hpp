#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/net/message.hpp"
#include "common/types.hpp"
#include "proto/data.pb.h"

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
};

/// Images of a shard's slices from its primary to its backup.
struct DataImages {
  /// Further images go into further messages.
  static constexpr std::size_t kMaxImages = 256;

  ShardId shard;
  std::uint64_t term = 0;
  std::uint64_t copy = 0;
  std::vector<pb::TableSpec> tables;  // until the backup has acknowledged an image
  std::vector<ImageItem> images;
};

}  // namespace taut
