#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/formats/weights_file.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"

namespace taut::model {

/// How files of trained parameters match a net's tables. A table "LAYER/NAME", the layer's
/// parameter number I, is found in a tensor of the name
///
///   LAYER/NAME   as `tautline export` writes safetensors
///   LAYER.NAME   as PyTorch names them, also with a '.' for each '/' in LAYER
///   as a state_dict of torch.nn's layers names it (worker/model/pytorch/state_dict.hpp), if both
///                store it in the same way
///   LAYER/I, LAYER.I   as the blobs of a .caffemodel or .caffemodel.h5 are numbered
///
/// and a shared one under its own name, or as a numbered blob of any layer that uses it. If several
/// files have a table, the last one provides it.
struct WeightsMatch {
  struct Found {
    std::size_t table = 0;   // into Graph::parameters
    std::size_t file = 0;    // into the files
    std::size_t tensor = 0;  // into the file's tensors
  };
  std::vector<Found> found;           // by table
  std::vector<std::string> missing;   // tables that start from their filler
  std::vector<std::string> not_used;  // tensors, of all files

  /// A one-line summary: the matches, and the rest on both sides.
  [[nodiscard]] std::string summary() const;
};

/// Errors    mismatch: a tensor of a different shape or of whole numbers (names layer and shapes),
///           a name that two tensors of a file match, no match at all; a state_dict that must be
///           converted
[[nodiscard]] Result<WeightsMatch> match_weights(const Graph& graph,
                                                 const std::vector<WeightsFile>& files);

/// Opens a job's weights files, in order.
[[nodiscard]] Result<std::vector<WeightsFile>> open_weights_of(const pb::Job& job);

/// Initializes the graph's tables from the job's files: sets their origin, including SHA-256.
/// Returns the summary; empty if the job names no files.
/// Errors    as open_weights and match_weights
[[nodiscard]] Result<std::string> initialize_from_weights(const pb::Job& job, Graph& graph);

/// The summary of initialize_from_weights, without reading the files' contents. Errors: the same.
[[nodiscard]] Result<std::string> match_job_weights(const pb::Job& job,
                                                    const GraphOptions& options);

/// Merges the job's and the solver's `weights`: files separated by commas become separate entries,
/// the solver's if the job names none, with absolute paths.
/// Errors    not_found
[[nodiscard]] Result<void> settle_weights(const std::filesystem::path& job_path,
                                          const std::filesystem::path& solver_path, pb::Job& job);

}  // namespace taut::model
