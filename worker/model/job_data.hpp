#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/job_nets.hpp"

namespace taut::model {

/// The folder of the default data set: Debian's package dataset-fashion-mnist.
inline constexpr const char* kDefaultDataFolder = "/usr/share/datasets/fashion-mnist";

/// Where the records of one phase come from: a folder, or two files.
struct DataPlace {
  std::string folder;
  std::string images;
  std::string labels;
  friend bool operator==(const DataPlace&, const DataPlace&) = default;
};

/// A data layer of a phase and where its records come from.
struct LayerData {
  pb::LayerParameter layer;
  DataPlace place;
};

/// The layers that feed one of a job's nets from files, each with the place that holds for it: the
/// job's last data entry for the phase and the layer (an entry with a folder and no phase is for
/// both), or what the layer names, or the default data set.
/// Errors    invalid: an entry with half of the files, or with files and a folder, or for a layer
///           that is not there; a Data layer that says LEVELDB of a folder that is one or is not
///           there
[[nodiscard]] Result<std::vector<LayerData>> data_of(const pb::Job& job, const NetChoice& choice);

/// One line for each file or folder that is not there.
[[nodiscard]] std::vector<std::string> missing_data(const DataPlace& place);

/// Makes the paths of a job's data absolute where they are found, from the working folder or from
/// the file that names them; others stay as they are.
void settle_data_paths(const std::filesystem::path& job_path, pb::Job& job);

/// The same for the paths that a net's layers name.
void settle_net_paths(const std::filesystem::path& net_path, pb::NetParameter& net);

}  // namespace taut::model
