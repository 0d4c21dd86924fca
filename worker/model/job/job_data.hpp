#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/job/job_nets.hpp"

namespace taut::model {

/// The folder of the default data set: Debian's package dataset-fashion-mnist.
inline constexpr const char* kDefaultDataFolder = "/usr/share/datasets/fashion-mnist";

/// The source of one phase's records: a folder, or two files.
struct DataPlace {
  std::string folder;
  std::string images;
  std::string labels;
  friend bool operator==(const DataPlace&, const DataPlace&) = default;
};

/// A data layer of a phase and the source of its records.
struct LayerData {
  pb::LayerParameter layer;
  DataPlace place;
};

/// The layers that feed one of a job's nets from files, each with its source: the job's last data
/// entry for the phase and the layer (an entry with a folder and no phase is for both), or else the
/// source that the layer names, or else the default data set.
/// Errors    invalid: an entry with only one of two files, with files and a folder, or for a layer
///           that does not exist; a Data layer with backend LEVELDB that names a LevelDB or a
///           missing folder
[[nodiscard]] Result<std::vector<LayerData>> data_of(const pb::Job& job, const NetChoice& choice);

/// One line for each missing file or folder.
[[nodiscard]] std::vector<std::string> missing_data(const DataPlace& place);

/// Makes the paths of a job's data absolute if they exist relative to the working folder or to the
/// file that names them; others are not changed.
void settle_data_paths(const std::filesystem::path& job_path, pb::Job& job);

/// As settle_data_paths(), for the paths in a net's layers.
void settle_net_paths(const std::filesystem::path& net_path, pb::NetParameter& net);

}  // namespace taut::model
