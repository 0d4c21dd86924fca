#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/result.hpp"
#include "proto/formats/stored_tensor.hpp"

namespace taut {

/// A file of trained parameters, .safetensors, .caffemodel or .caffemodel.h5, and its tensors.
struct WeightsFile {
  TensorFile file;
  std::vector<StoredTensor> tensors;
};

/// Opens a weights file; its bytes determine the format.
/// Errors    invalid: of another format (PyTorch's own is named), or damaged; not_found; io
[[nodiscard]] Result<WeightsFile> open_weights(const std::filesystem::path& path);

/// Whether a path has the name of a weights file: .safetensors, .caffemodel or .h5.
[[nodiscard]] bool is_weights_name(const std::filesystem::path& path);

}  // namespace taut
