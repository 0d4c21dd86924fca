#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/result.hpp"
#include "proto/formats/stored_tensor.hpp"

namespace taut {

/// A file of trained parameters, .safetensors, .caffemodel or .caffemodel.h5, and the tensors that
/// it holds.
struct WeightsFile {
  TensorFile file;
  std::vector<StoredTensor> tensors;
};

/// The format follows from the file's bytes.
/// Errors    invalid: of another format (PyTorch's own is named), or damaged; not_found; io
[[nodiscard]] Result<WeightsFile> open_weights(const std::filesystem::path& path);

/// Whether a path's name is that of a weights file: .safetensors, .caffemodel or .h5.
[[nodiscard]] bool is_weights_name(const std::filesystem::path& path);

}  // namespace taut
