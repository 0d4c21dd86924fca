#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/result.hpp"
#include "common/time_source.hpp"
#include "proto/cluster.pb.h"
#include "proto/tensorboard.pb.h"
#include "worker/records/clock_figures.hpp"
#include "worker/records/record_file.hpp"

namespace taut::worker {

/// Writes a worker's records of a job while it trains: metrics.csv, tests.csv if it runs tests,
/// and TensorBoard's event file. They are in FOLDER/jobN-NAME, or the first of FOLDER/jobN-NAME-2,
/// -3, ... that no other job has, which TensorBoard shows as a run.
/// Thread    the compute thread
class Recorder {
 public:
  /// nullptr if the configuration requires no record.
  /// token     of the job: records of another job of the same number are left alone, and these go
  ///           to the next free folder; those of the same job are continued
  /// time      outlives the recorder
  /// start     the worker's first clock: above 0, an existing metrics.csv of the job is continued
  /// Errors    io: the folder or a file cannot be created
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> open(const pb::RecordsConfig& config,
                                                              const std::string& worker, JobId job,
                                                              std::uint64_t token, Clock start,
                                                              TimeSource& time = machine_time());

  void on_clock(const ClockFigures& figures);
  void on_test(const TestFigures& test);
  /// Whether the histograms of the tables are due at this clock.
  [[nodiscard]] bool needs_tables(Clock clock) const;
  /// what      "value" or "gradient"
  void on_table(const std::string& table, const char* what, Clock clock,
                std::span<const float> elements);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  Recorder(const pb::RecordsConfig& config, const TimeSource& time);
  void write_outputs(const TestFigures& test);
  void write_event(Clock clock, pb::TensorBoardSummary summary);
  [[nodiscard]] double wall_s() const;

  const pb::RecordsConfig config_;
  const TimeSource& time_;
  const TimePoint began_;
  std::filesystem::path folder_;
  bool is_continued_ = false;
  std::optional<RecordFile> metrics_;
  std::optional<RecordFile> tests_;  // from the first test on
  std::optional<RecordFile> events_;
  IntervalCounter interval_;
};

}  // namespace taut::worker
