#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/backend/backend.hpp"
#include "worker/data/data_loader.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/graph.hpp"

namespace taut::worker {

/// One copy of the training net with its own share of the data.
struct Replica {
  std::unique_ptr<Net> net;
  std::unique_ptr<data::DataLoader> loader;
  std::int64_t batch = 0;
};

/// A job's two nets and data sets, opened once for all replicas of a process.
class JobAssets {
 public:
  /// Opens the data, builds the graphs.
  /// members   that the job starts with; splits the batch where the job says global_batch
  /// Errors    as build_graph, data_of and open_dataset; labels that the net has no output for
  [[nodiscard]] static Result<JobAssets> open(const pb::Job& job, std::uint32_t members);

  /// A training replica that begins at a clock. Throws DeviceError.
  [[nodiscard]] Result<Replica> make_replica(Backend& backend, std::uint32_t slot,
                                             std::uint32_t slots, Clock start) const;

  [[nodiscard]] const model::Graph& train_graph() const { return train_; }
  /// Null where the job has no test phase.
  [[nodiscard]] const model::Graph* test_graph() const { return test_.get(); }
  [[nodiscard]] Result<std::unique_ptr<data::DataLoader>> test_loader() const;
  [[nodiscard]] const pb::Job& job() const { return job_; }
  [[nodiscard]] std::int64_t test_batch() const { return test_batch_; }

 private:
  pb::Job job_;
  model::Graph train_;
  std::unique_ptr<model::Graph> test_;
  std::shared_ptr<const data::Dataset> train_data_;
  std::shared_ptr<const data::Dataset> test_data_;
  data::Transform train_transform_;
  data::Transform test_transform_;
  std::int64_t train_batch_ = 0;
  std::int64_t test_batch_ = 0;
};

}  // namespace taut::worker
