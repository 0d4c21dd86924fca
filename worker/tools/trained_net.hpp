#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/tool.pb.h"
#include "worker/data/data_loader.hpp"
#include "worker/engine/backend.hpp"
#include "worker/evaluation/hdf5_output.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/saved_model.hpp"
#include "worker/replica.hpp"

namespace taut::worker {

/// A net on a device with a saved model's values, for forward passes.
/// Thread    one at a time
class TrainedNet {
 public:
  /// Errors    as `values`. Throws DeviceError.
  [[nodiscard]] static Result<TrainedNet> create(const model::Graph& graph,
                                                 const model::ReadTable& values, Backend& backend);

  void forward(const data::Batch& batch);
  [[nodiscard]] std::vector<Net::Output> outputs() { return net_->outputs(*stream_); }
  /// As Net::read_blob.
  void read_blob(const std::string& name, std::span<float> into) {
    net_->read_blob(*stream_, name, into);
  }
  /// Overload for a blob by its index in the graph.
  void read_blob(std::size_t blob, std::span<float> into) { net_->read_blob(*stream_, blob, into); }
  /// Reads the values of the last batch for the net's HDF5Output layers.
  void read_outputs(Hdf5Output& outputs) { outputs.read(*net_, *stream_); }

 private:
  TrainedNet() = default;

  std::unique_ptr<Stream> stream_;
  std::vector<DeviceBuffer> parameters_;
  std::unique_ptr<Net> net_;
};

/// The model that a request names, with the request's data in place of the job's.
struct OpenedModel {
  model::SavedModel saved;
  pb::Job job;
};
[[nodiscard]] Result<OpenedModel> open_model(const pb::ToolRequest& request);

/// How long reading a batch may take.
inline constexpr Duration kBatchWait{60'000'000};

// The functions for each kind of request.
[[nodiscard]] Result<void> test_model(const pb::ToolRequest& request, Backend& backend);
[[nodiscard]] Result<void> predict(const pb::ToolRequest& request, Backend& backend);
[[nodiscard]] Result<void> sample_text(const pb::ToolRequest& request, Backend& backend);
[[nodiscard]] Result<void> save_outputs(const pb::ToolRequest& request, Backend& backend);

}  // namespace taut::worker
