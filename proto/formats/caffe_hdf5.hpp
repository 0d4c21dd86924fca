#pragma once

#include <filesystem>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/result.hpp"
#include "proto/formats/caffe_model.hpp"
#include "proto/formats/stored_tensor.hpp"

/// Caffe's saved nets in HDF5 (`snapshot_format: HDF5`, .caffemodel.h5): a group "data" with a
/// group for each layer, which holds the layer's blobs as arrays "0", "1", ... A layer whose name
/// has slashes is a group within groups.
///
/// Source: Caffe, src/caffe/net.cpp, Net::ToHDF5 and Net::CopyTrainedLayersFromHDF5.
namespace taut::caffe {

/// The blobs of every layer, "LAYER/0", "LAYER/1", ..., and where their numbers are stored. Each is
/// one piece of the file, as Caffe writes it.
/// Errors    invalid: as hdf5::list_datasets; no group "data"; a blob that is chunked, compressed,
///           or not of little-endian float32 or float64
[[nodiscard]] Result<std::vector<StoredTensor>> scan_hdf5_model(const TensorFile& file);

/// Writes the layers' blobs as Caffe does, float32. The file appears whole or not at all.
/// Errors    as `read`; invalid: a layer's name that HDF5 cannot have; io
[[nodiscard]] Result<void> write_hdf5_model(const std::filesystem::path& path,
                                            const std::vector<ModelLayer>& layers,
                                            const ReadBlob& read);

}  // namespace taut::caffe
