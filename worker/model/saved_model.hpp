#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "proto/formats/weights_file.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"
#include "worker/model/pytorch/renames.hpp"
#include "worker/model/read_table.hpp"

namespace taut::model {

/// The metadata entry of an exported .safetensors file that contains the model's job, as text
/// protobuf.
inline constexpr const char* kJobNote = "tautline.job";

/// A trained model: a checkpoint's folder, which contains its job, or a weights file. A weights
/// file's net is in another file, or in itself if `tautline export` wrote it.
/// Thread    one at a time
class SavedModel {
 public:
  /// model     a folder, a .safetensors, a .caffemodel or a .caffemodel.h5
  /// net_file  a net, solver or job file that replaces the model's; empty: none
  /// Errors    as CheckpointReader::open, open_weights and load_job; invalid: no file names a net
  [[nodiscard]] static Result<SavedModel> open(const std::filesystem::path& model,
                                               const std::filesystem::path& net_file);

  /// Net, solver and data of the training.
  [[nodiscard]] const pb::Job& job() const { return job_; }
  /// nullptr if it is not a checkpoint.
  [[nodiscard]] const CheckpointReader* checkpoint() const {
    return checkpoint_ ? &*checkpoint_ : nullptr;
  }

  /// Sets PyTorch's names for layers and parameters, for a file that is a state_dict.
  void rename(pytorch::Renames renames) { renames_ = std::move(renames); }

  /// The values of a graph's tables. A .safetensors may be a PyTorch module's state_dict
  /// (worker/model/pytorch/state_dict.hpp). Valid for the lifetime of this object.
  /// Errors    mismatch: the model lacks a table or has it with a different shape; as
  ///           match_weights, counterparts_of
  [[nodiscard]] Result<ReadTable> tables_of(const Graph& graph) const;

 private:
  SavedModel() = default;
  Result<ReadTable> from_checkpoint(const Graph& graph) const;
  Result<ReadTable> from_weights(const Graph& graph) const;

  std::filesystem::path path_;
  pb::Job job_;
  std::optional<CheckpointReader> checkpoint_;
  std::vector<WeightsFile> weights_;  // one, if it is not a checkpoint
  std::optional<pytorch::Renames> renames_;
};

/// Loads a net, solver or job file as a job; a net file's job has no solver.
[[nodiscard]] Result<pb::Job> load_net_or_job(const std::filesystem::path& path);

}  // namespace taut::model
