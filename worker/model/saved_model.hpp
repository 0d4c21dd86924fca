#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "proto/formats/weights_file.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"

namespace taut::model {

/// The metadata entry of an exported .safetensors file that contains the model's job, as text
/// protobuf.
inline constexpr const char* kJobNote = "tautline.job";

/// Elements [first, first + out.size()) of a graph's table number `table`.
using ReadTable =
    std::function<Result<void>(std::size_t table, std::uint64_t first, std::span<float> out)>;

/// A trained model: a checkpoint's folder, which contains its job, or a weights file with the net
/// from another file, or from the file itself if `tautline export` wrote it.
/// Thread    one at a time
class SavedModel {
 public:
  /// model     a folder, a .safetensors, a .caffemodel or a .caffemodel.h5
  /// net_file  a net, solver or job file, instead of the one in the model; empty: none
  /// Errors    as CheckpointReader::open, open_weights and load_job; invalid: no file names a net
  [[nodiscard]] static Result<SavedModel> open(const std::filesystem::path& model,
                                               const std::filesystem::path& net_file);

  /// Net, solver and data of the training.
  [[nodiscard]] const pb::Job& job() const { return job_; }
  /// nullptr if it is no checkpoint.
  [[nodiscard]] const CheckpointReader* checkpoint() const {
    return checkpoint_ ? &*checkpoint_ : nullptr;
  }

  /// The values of a graph's tables. Valid for the lifetime of this object.
  /// Errors    mismatch: the model lacks a table or has it with another shape; as match_weights
  [[nodiscard]] Result<ReadTable> tables_of(const Graph& graph) const;

 private:
  SavedModel() = default;
  Result<ReadTable> from_checkpoint(const Graph& graph) const;
  Result<ReadTable> from_weights(const Graph& graph) const;

  std::filesystem::path path_;
  pb::Job job_;
  std::optional<CheckpointReader> checkpoint_;
  std::vector<WeightsFile> weights_;  // one, if it is no checkpoint
};

/// A net, solver or job file as a job; a net's has no solver.
[[nodiscard]] Result<pb::Job> load_net_or_job(const std::filesystem::path& path);

}  // namespace taut::model
