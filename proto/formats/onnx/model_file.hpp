#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/formats/onnx/onnx_graph.hpp"

namespace taut::onnx {

// ONNX 1.12's, which Debian 12 has; see docs/DECISIONS.md.
inline constexpr std::int64_t kIrVersion = 8;
inline constexpr std::int64_t kOperatorSet = 17;
/// Protobuf's own limit of a message.
inline constexpr std::uint64_t kMaxModelBytes = (1ULL << 31U) - 1;

/// Reads elements [first, first + out.size()) of a tensor.
using ReadNumbers = std::function<Result<void>(std::uint64_t first, std::span<float> out)>;

/// A float32 constant of a graph whose numbers are read only when the file is written.
struct StreamedTensor {
  std::string name;
  Dims dims;
  ReadNumbers read;
};

/// Writes a model of one graph. The file appears whole or not at all.
/// graph    without its streamed constants
/// Errors   invalid: above kMaxModelBytes; as the tensors' `read`; io
[[nodiscard]] Result<void> write_model(const std::filesystem::path& path, const GraphProto& graph,
                                       const std::vector<StreamedTensor>& tensors);

}  // namespace taut::onnx
