#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/record_source.hpp"

namespace taut::data {

/// Opens the arrays of HDF5 files that an HDF5Data layer's tops name, as records that follow each
/// other file by file. Numbers of any kind become floats. An array that is stored as one piece of
/// little-endian numbers is read record by record from the file; any other is read as a whole into
/// memory.
/// source    an HDF5 file, or a text file with the path of one on each line, relative to the
///           working folder or to the list's
/// Errors    not_found; invalid: as hdf5::list_datasets and hdf5::read_floats; a file without one
///           of the arrays; arrays of different numbers of records, or files of different shapes
/// Source    Caffe, src/caffe/layers/hdf5_data_layer.cpp
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_hdf5(
    const pb::LayerParameter& layer, const std::filesystem::path& source);

/// The records' shape, from the first file's structure alone; nullopt if it cannot be read.
[[nodiscard]] std::optional<RecordShape> peek_hdf5(const pb::LayerParameter& layer,
                                                   const std::filesystem::path& source);

}  // namespace taut::data
