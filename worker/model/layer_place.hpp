#pragma once

#include <filesystem>
#include <string>

namespace taut::model {

/// An error about a layer of a job, prefixed with the layer's file, line and column, e.g.
/// "train_val.prototxt:12:3: layer "conv1" ...". The layer is searched in the job, solver or net
/// file `path` and in the files that it names; an error that names no layer, or one that is not
/// found, is returned unchanged.
[[nodiscard]] std::string with_layer_place(const std::filesystem::path& path,
                                           const std::string& message);

/// As above; an error that has no place in a file and does not name the file is prefixed with it.
[[nodiscard]] std::string with_file_place(const std::filesystem::path& path,
                                          const std::string& message);

}  // namespace taut::model
