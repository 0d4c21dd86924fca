#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/math/codec.hpp"
#include "common/net/message.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/compression/codec_times.hpp"

namespace taut::lab {

/// What encoding, decoding and applying updates take of a process, in microseconds of a processor,
/// as a cluster file has them.
class CodecCosts {
 public:
  CodecCosts() = default;
  explicit CodecCosts(const pb::LabCosts& costs);

  /// Whether no codec takes time, so that messages need not be looked into.
  [[nodiscard]] bool are_free() const { return are_free_; }
  [[nodiscard]] double encode_us(const math::Encoding& encoding, std::uint64_t count) const;
  [[nodiscard]] double decode_us(const math::Encoding& encoding, std::uint64_t count) const;
  [[nodiscard]] double encode_us(const DataItem& item) const;
  /// Of all items of a message.
  [[nodiscard]] double decode_us(const DataMessage& message) const;
  /// What a shard takes to change its values by a message's updates.
  [[nodiscard]] double apply_us(const DataMessage& message) const;

 private:
  struct Each {  // value
    double encode_us = 0;
    double decode_us = 0;
  };
  [[nodiscard]] const Each& of(const math::Encoding& encoding) const {
    return each_[static_cast<std::size_t>(encoding.codec)];
  }

  std::array<Each, math::kCodecs> each_{};
  double apply_us_ = 0;  // a value
  bool are_free_ = true;
};

/// What a process encodes: each update and each version of values once, however often it is sent.
/// Thread    one
class Encoded {
 public:
  /// What encoding those of a message's payloads takes that are new.
  [[nodiscard]] double take(const CodecCosts& costs, const DataMessage& message);

 private:
  using Place = std::pair<TableId, SliceId>;
  std::map<Place, Clock> pushed_;  // the newest update
  std::map<Place, Frame> values_;  // the newest bytes; kept, so that no others have their address
};

/// The codecs of a job's compression, by name and without float32, in the order of math::Codec.
[[nodiscard]] std::vector<std::string> codecs_of(const pb::Job& job);
/// Those that a cluster file has no times of.
[[nodiscard]] std::vector<std::string> missing_codecs(const pb::Job& job,
                                                      const pb::LabCosts& costs);

/// Seconds a value of reading what a codec has encoded, of which a cluster file has one for each
/// codec: of one that values have too, a worker's of decoding them; of one that only updates have,
/// what a shard takes longer to add such an update than one in float32, which applying contains.
/// plain_add_s  of adding one in float32
[[nodiscard]] double reading_s(const worker::CodecTime& time, bool is_pulled, double plain_add_s);
/// Times each codec of a job's compression on this machine, with its tables (reading_s()), and what
/// its rule takes to change values by a float32 update. With DGC, encoding contains the momentum.
/// Errors    as to_compression() and to_shard_rule()
[[nodiscard]] Result<void> measure_codecs(const pb::Job& job, const std::vector<TableSpec>& tables,
                                          pb::LabCosts& costs);

}  // namespace taut::lab
