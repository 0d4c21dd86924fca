#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "common/types.hpp"
#include "proto/coordinator_state.pb.h"

namespace taut {

/// Keeps a folder for each job, with the files that `tautline train` writes: job.textproto as
/// resolved, run.json, coordinator.log, each process's log, metrics.csv and tests.csv as far as
/// they were received, and summary.json. Names are FOLDER/jobN-NAME, or FOLDER/jobN-NAME-2, ... if
/// another job has that one. If a folder cannot be written, its job's records are lost, and nothing
/// else.
/// Thread    one; it writes files, without waiting for the disk
class RunKeeper {
 public:
  /// folder  contains the jobs' folders; empty: nothing is kept
  explicit RunKeeper(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The first number above those of all jobs' folders.
  [[nodiscard]] std::uint64_t next_job() const;

  /// Makes the job's folder, or finds it after a restart.
  void begin(const pb::StoredJob& job, const pb::RunOrigin& origin);
  /// Appends a line to the job's coordinator.log.
  void note(JobId job, const std::string& line);
  /// Writes the summary of a job that has ended.
  void end(const pb::StoredJob& job);

  /// Adds a part of a record. Returns the end of the record so far, or kRecordIsComplete if no more
  /// of it is kept.
  std::uint64_t take(JobId job, const std::string& process, const pb::RecordPart& part);
  [[nodiscard]] pb::LogReply log(const pb::LogRequest& request) const;
  /// Forgets a job whose records are no longer requested; its folder stays.
  void forget(JobId job);
  /// HOST:PATH of the job's folder; empty if it has none.
  [[nodiscard]] std::string place_of(JobId job) const;

 private:
  struct Record {
    std::filesystem::path path;
    std::uint64_t end = 0;  // bytes of the record so far, kept or not
    std::string kept_at;    // HOST:PATH of the whole record
    bool is_cut = false;    // only a part of it is here
  };
  struct Run {
    std::filesystem::path folder;  // empty if it cannot be written
    std::map<std::pair<std::string, pb::RecordPart::Kind>, Record> records;
    bool ended = false;
  };
  [[nodiscard]] std::filesystem::path path_of(const Run& run, JobId job, const std::string& process,
                                              pb::RecordPart::Kind kind) const;
  void give_up(JobId job, Run& run, const std::string& why);

  const std::filesystem::path folder_;
  std::map<JobId, Run> runs_;
};

}  // namespace taut
