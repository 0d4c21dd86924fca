#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/result.hpp"
#include "proto/cluster.pb.h"
#include "proto/tensorboard.pb.h"
#include "worker/records/clock_figures.hpp"
#include "worker/records/record_file.hpp"

namespace taut::worker {

/// What a worker writes down of a job while it trains: metrics.csv, and TensorBoard's event file.
/// Both lie in FOLDER/jobN-NAME, which is a run of its own for TensorBoard.
/// Thread    the compute thread
class Recorder {
 public:
  /// Null where the config asks for no record.
  /// start     the worker's first clock: a metrics.csv that is there goes on where that is above 0
  /// Errors    io: the folder or a file cannot be made
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> open(const pb::RecordsConfig& config,
                                                              const std::string& worker, JobId job,
                                                              Clock start);

  void on_clock(const ClockFigures& figures);
  void on_test(const TestFigures& test);
  /// Whether the distributions of the tables are wanted at this clock.
  [[nodiscard]] bool wants_tables(Clock clock) const;
  /// what      "value" or "gradient"
  void on_table(const std::string& table, const char* what, Clock clock,
                std::span<const float> elements);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit Recorder(const pb::RecordsConfig& config);
  void write_event(Clock clock, pb::TensorBoardSummary summary);
  [[nodiscard]] double wall_s() const;

  const pb::RecordsConfig config_;
  const TimePoint began_;
  std::filesystem::path folder_;
  std::optional<RecordFile> metrics_;
  std::optional<RecordFile> events_;
  IntervalCounter interval_;
};

}  // namespace taut::worker
