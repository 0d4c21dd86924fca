#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

/// What encoding, decoding and applying updates cost a process, in microseconds of a processor,
/// from a cluster file.
class CodecCosts {
 public:
  CodecCosts() = default;
  explicit CodecCosts(const pb::LabCosts& costs);

  /// Whether no codec takes time, so that messages need not be inspected.
  [[nodiscard]] bool are_free() const { return are_free_; }
  [[nodiscard]] double encode_us(const math::Encoding& encoding, std::uint64_t count) const;
  [[nodiscard]] double decode_us(const math::Encoding& encoding, std::uint64_t count) const;
  [[nodiscard]] double encode_us(const DataItem& item) const;
  /// For all items of a message.
  [[nodiscard]] double decode_us(const DataMessage& message) const;
  /// The time that a shard takes to apply a message's updates to its values.
  [[nodiscard]] double apply_us(const DataMessage& message) const;

 private:
  struct Each {  // per value
    double encode_us = 0;
    double decode_us = 0;
  };
  [[nodiscard]] const Each& of(const math::Encoding& encoding) const {
    return each_[static_cast<std::size_t>(encoding.codec)];
  }

  std::array<Each, math::kCodecs> each_{};
  double apply_us_ = 0;  // per value
  bool are_free_ = true;
};

/// What a process encodes: each update and each version of values once, however often it is sent.
/// Thread    one
class Encoded {
 public:
  /// The time to encode those of a message's payloads that are new.
  [[nodiscard]] double take(const CodecCosts& costs, const DataMessage& message);

 private:
  using Place = std::pair<TableId, SliceId>;
  std::map<Place, Clock> pushed_;  // the newest update
  std::map<Place, Frame> values_;  // the newest bytes; kept, so that no others have their address
};

/// The codecs of a job's compression, by name and without float32, in the order of math::Codec.
[[nodiscard]] std::vector<std::string> codecs_of(const pb::Job& job);
/// The codecs for which a cluster file has no times.
[[nodiscard]] std::vector<std::string> missing_codecs(const pb::Job& job,
                                                      const pb::LabCosts& costs);

/// Decoding time per value. For codecs used only for updates: the extra time to add such an
/// update, compared with float32.
/// is_pulled    values are encoded with it too
/// plain_add_s  time per value to add an update in float32
[[nodiscard]] double reading_s(const worker::CodecTime& time, bool is_pulled, double plain_add_s);
/// Times an encoding of a slice of updates or values.
/// momentum  as of worker::time_codec()
using TimeCodec =
    std::function<worker::CodecTime(const math::Encoding& encoding, std::optional<float> momentum)>;
/// Times with worker::time_codec() on this machine.
[[nodiscard]] worker::CodecTime time_on_slice(const math::Encoding& encoding,
                                              std::optional<float> momentum);

/// Times each codec of a job's compression, with its tables (reading_s()), and how long its rule
/// takes on this machine to apply a float32 update. With DGC, encoding includes the momentum.
/// Errors    as to_compression() and to_shard_rule()
[[nodiscard]] Result<void> measure_codecs(const pb::Job& job, const std::vector<TableSpec>& tables,
                                          pb::LabCosts& costs,
                                          const TimeCodec& time = time_on_slice);

}  // namespace taut::lab
