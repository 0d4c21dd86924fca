#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/tensor_file.hpp"
#include "proto/stored_tensor.hpp"

namespace taut {

/// A file of trained parameters, .safetensors or .caffemodel, and the tensors that it holds.
struct WeightsFile {
  TensorFile file;
  std::vector<StoredTensor> tensors;
};

/// Which of both formats it is, its bytes tell.
/// Errors    invalid: of another format (Caffe's HDF5 and PyTorch's own are named), or damaged;
///           not_found; io
[[nodiscard]] Result<WeightsFile> open_weights(const std::filesystem::path& path);

/// Whether a path's name is that of a weights file: .safetensors or .caffemodel.
[[nodiscard]] bool is_weights_name(const std::filesystem::path& path);

}  // namespace taut
