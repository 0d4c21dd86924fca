#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/files/tensor_file.hpp"
#include "common/result.hpp"
#include "proto/formats/stored_tensor.hpp"

/// Caffe's saved nets: a NetParameter in protobuf's wire format whose layers hold their numbers as
/// BlobProtos. They are found, not parsed: a blob's packed floats are stored in the file as they
/// are in memory.
///
///   NetParameter     name 1, layers 2 (before 2015), layer 100
///   LayerParameter   name 1, type 2, bottom 3, top 4, blobs 7
///   V1LayerParameter layer 1 (before 2014), bottom 2, top 3, name 4, type 5, blobs 6
///   BlobProto        num 1, channels 2, height 3, width 4, data 5, shape { dim 1 } 7,
///                    double_data 8
///
/// Source: Caffe, src/caffe/proto/caffe.proto.
namespace taut::caffe {

/// A file beyond these limits is refused.
inline constexpr std::uint64_t kMaxModelBytes = (1ULL << 31U) - 1;  // protobuf's own
inline constexpr std::size_t kMaxLayers = 1U << 16U;
inline constexpr std::size_t kMaxBlobs = 1U << 20U;
inline constexpr std::size_t kMaxAxes = 32;  // Caffe's
inline constexpr std::size_t kMaxNameBytes = 4096;

/// The blobs of every layer, "LAYER/0", "LAYER/1", ... in the file's order.
/// Errors    invalid: no NetParameter, or one that is cut or damaged; a blob whose shape does not
///           fit its numbers, that has none, or whose numbers are in several pieces; limits; io
[[nodiscard]] Result<std::vector<StoredTensor>> scan_model(const TensorFile& file);

/// A layer to write, with the shapes of its blobs known in advance.
struct ModelLayer {
  std::string name;
  std::string type;
  std::vector<std::string> bottoms;
  std::vector<std::string> tops;
  std::vector<std::vector<std::int64_t>> blobs;  // shapes
};

/// Reads elements [first, first + out.size()) of a layer's blob.
using ReadBlob = std::function<Result<void>(std::size_t layer, std::size_t blob,
                                            std::uint64_t first, std::span<float> out)>;

/// Writes the layers as today's Caffe does, float32. The file appears whole or not at all.
/// Errors    invalid: above kMaxModelBytes; as `read`; io
[[nodiscard]] Result<void> write_model(const std::filesystem::path& path, const std::string& net,
                                       const std::vector<ModelLayer>& layers, const ReadBlob& read);

}  // namespace taut::caffe
