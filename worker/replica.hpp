#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/batch_shares.hpp"
#include "proto/job.pb.h"
#include "worker/data/data_loader.hpp"
#include "worker/engine/backend.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::worker {

/// One copy of the training net, on a device, with its own share of the data.
struct Replica {
  Backend* backend = nullptr;  // must outlive the replica
  std::shared_ptr<Net> net;
  std::unique_ptr<std::pmr::memory_resource> batch_memory;  // nullptr: any memory
  std::unique_ptr<data::DataLoader> loader;
  std::int64_t batch = 0;
  std::vector<model::RowParameter> rows;  // the net's parameters of which batches name rows
};

/// What a replica shares with others in its process, and what it lacks.
struct ReplicaOptions {
  data::Loading loading = data::Loading::kAhead;
  bool has_data = true;      // false: its batches are empty
  std::shared_ptr<Net> net;  // nullptr: its own
  /// Its part of batches that all members of a job share according to their speeds; replaces a
  /// share of the records.
  std::optional<BatchShares::Part> part = std::nullopt;
};

/// A net of one phase with the sources of its data layers.
struct FedGraph {
  model::Graph graph;
  std::map<std::string, std::shared_ptr<const data::RecordSource>> sources;  // by the layer's name

  /// The records of a batch, from the first blob that is fed.
  [[nodiscard]] std::int64_t batch() const;
};

struct PhaseOptions {
  std::uint32_t members = 1;  // they split the batch if the job has global_batch
  std::uint32_t devices = 1;  // of a member; they split its batch
  std::int64_t batch = 0;     // replaces the net's; 0: the net's own
};

/// Opens the data of one of a job's nets and builds its graph.
/// Errors    as build_graph, data_of and open_source; labels for which the net has no output; row
///           numbers that are too large for a layer that reads them as floats
[[nodiscard]] Result<FedGraph> open_phase(const pb::Job& job, const model::NetChoice& choice,
                                          const PhaseOptions& options);

/// Makes batches for every layer that is fed, starting at a clock.
[[nodiscard]] Result<std::unique_ptr<data::DataLoader>> start_loader(
    const FedGraph& fed, const data::FeedOptions& options,
    const data::DataLoader::Options& loading);

/// A job's nets and their data, opened once for all replicas of a process.
class JobAssets {
 public:
  /// Opens the data, builds the graphs; the training net's tables start from the job's weights.
  /// members   at the start of the job; they split the batch if the job has global_batch
  /// devices   of each member; they split its batch
  /// Errors    as build_graph, data_of, open_source and initialize_from_weights; labels for which a
  ///           net has no output
  [[nodiscard]] static Result<JobAssets> open(const pb::Job& job, std::uint32_t members,
                                              std::uint32_t devices = 1);

  /// A training replica that starts at a clock; each clock draws iter_size batches. Throws
  /// DeviceError.
  /// slot      its share among `slots` shares of the data, one for each member
  /// device    the member's device, that is the part of its batches
  [[nodiscard]] Result<Replica> make_replica(Backend& backend, std::uint32_t slot,
                                             std::uint32_t slots, Clock start,
                                             std::uint32_t device = 0,
                                             const ReplicaOptions& sharing = {}) const;
  /// Gives a replica another part of the batches that all members share, from a clock on: a new net
  /// and a new loader. REQUIRES: the device computes nothing of the replica. Throws DeviceError.
  /// sharing   options for the loader only: its net and its part are not used
  /// Errors    as build_graph: the net does not allow a batch of this size
  [[nodiscard]] Result<void> change_part(Replica& replica, std::uint32_t slot, Clock start,
                                         const BatchShares::Part& part,
                                         const ReplicaOptions& sharing) const;
  /// Makes the training net with the random draws of one share of the data. Throws DeviceError.
  [[nodiscard]] std::shared_ptr<Net> make_net(Backend& backend, std::uint32_t draws) const;

  [[nodiscard]] const model::Graph& train_graph() const { return train_.graph; }
  /// The number of the job's test phases.
  [[nodiscard]] std::size_t test_count() const { return tests_.size(); }
  /// The graph of a test phase; nullptr if the job has no such phase.
  [[nodiscard]] const model::Graph* test_graph(std::size_t test = 0) const {
    return test < tests_.size() ? &tests_[test].graph : nullptr;
  }
  /// The records of a test's batch.
  [[nodiscard]] std::int64_t test_batch(std::size_t test) const { return tests_[test].batch(); }
  [[nodiscard]] std::int64_t train_batch() const { return train_.batch(); }
  [[nodiscard]] Result<std::unique_ptr<data::DataLoader>> test_loader(
      std::size_t test, std::pmr::memory_resource* memory) const;
  [[nodiscard]] const pb::Job& job() const { return job_; }

 private:
  [[nodiscard]] Result<FedGraph> train_of(std::int64_t batch) const;
  [[nodiscard]] Result<void> check_parts() const;
  [[nodiscard]] Result<void> start_data(Replica& replica, const FedGraph& fed,
                                        const data::Share& share, Clock start,
                                        const ReplicaOptions& sharing) const;

  pb::Job job_;
  std::uint32_t devices_ = 1;
  FedGraph train_;
  std::vector<FedGraph> tests_;
};

}  // namespace taut::worker
