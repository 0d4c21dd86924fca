#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut {

/// A mark with this end means that the coordinator needs no more of the record.
inline constexpr std::uint64_t kRecordIsComplete = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kMaxRecordPart = std::size_t{256} << 10U;  // bytes

/// Sends what this process writes about its jobs to the coordinator, a part with each heartbeat:
/// its log while it has the job, and a worker's metrics.csv and tests.csv. A part is repeated until
/// the coordinator's mark says that it has it. Records of earlier jobs are sent to their end.
/// Thread    its owner's
class RecordSender {
 public:
  /// log_file  of this process; empty: standard error
  explicit RecordSender(const std::string& log_file);

  /// The process has the job from now on. A repetition changes nothing.
  void begin(JobId job);
  /// A file of the job, METRICS or TESTS, which may not exist yet and may still grow.
  void set_file(JobId job, pb::RecordPart::Kind kind, const std::filesystem::path& file);
  /// The job is over: its records do not grow any more.
  void end(JobId job);

  void add_parts(pb::Heartbeat& heartbeat) const;
  void take(const std::vector<pb::RecordMark>& marks);

 private:
  struct Record {
    JobId job;
    pb::RecordPart::Kind kind = pb::RecordPart::LOG;
    std::filesystem::path file;             // METRICS, TESTS
    std::uint64_t begin = 0;                // LOG: the log's position when the job began
    std::uint64_t end = kRecordIsComplete;  // its bytes; for a log, unknown while the job runs
    std::uint64_t sent = 0;                 // bytes that the coordinator has
    bool over = false;
    std::string kept_at;
  };
  [[nodiscard]] std::string read(const Record& record, std::uint64_t& offset) const;

  const std::string log_kept_at_;
  std::vector<Record> records_;
};

/// HOST:PATH, the path absolute.
[[nodiscard]] std::string place_on_host(const std::filesystem::path& path);

}  // namespace taut
