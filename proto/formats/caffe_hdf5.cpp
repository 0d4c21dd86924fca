#include "proto/formats/caffe_hdf5.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/hdf5/hdf5_reader.hpp"
#include "common/hdf5/hdf5_writer.hpp"

namespace taut::caffe {
namespace {

constexpr std::string_view kValues = "data/";
constexpr std::size_t kBlockFloats = 1U << 20U;

/// What keeps a blob's numbers from being read where they are; "" if nothing does.
std::string why_not_read(const hdf5::Dataset& blob) {
  if (!blob.is_number) return "does not hold numbers, or holds them in another file";
  if (!blob.offset) {
    if (blob.stored_bytes == 0) return "was never written";
    return fmt::format(
        "is {}; weights must be stored as one piece: h5repack -f NONE -l CONTI OLD NEW",
        blob.is_compressed ? "compressed" : "stored in chunks");
  }
  if (blob.type != ElementType::kF32 && blob.type != ElementType::kF64) {
    return "must hold little-endian float32 or float64 numbers";
  }
  return {};
}

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

}  // namespace

Result<std::vector<StoredTensor>> scan_hdf5_model(const TensorFile& file) {
  TAUT_TRY(const auto blobs, hdf5::list_datasets(file.path()));
  std::vector<StoredTensor> tensors;
  for (const hdf5::Dataset& blob : blobs) {
    if (!blob.name.starts_with(kValues)) continue;
    if (const std::string why = why_not_read(blob); !why.empty()) {
      return invalid(fmt::format("{}: \"{}\" {}", file.path().string(), blob.name, why));
    }
    tensors.push_back({blob.name.substr(kValues.size()), blob.shape, *blob.type, *blob.offset});
  }
  if (!tensors.empty()) return tensors;
  return invalid(
      fmt::format("{}: is HDF5, and holds no net that Caffe saved: it must have a group \"data\" "
                  "with a group for each layer and the layer's blobs \"0\", \"1\", ... in it",
                  file.path().string()));
}

Result<void> write_hdf5_model(const std::filesystem::path& path,
                              const std::vector<ModelLayer>& layers, const ReadBlob& read) {
  std::vector<hdf5::ArraySpec> arrays;
  for (const ModelLayer& layer : layers) {
    for (std::size_t blob = 0; blob < layer.blobs.size(); ++blob) {
      arrays.push_back({fmt::format("{}{}/{}", kValues, layer.name, blob), layer.blobs[blob]});
    }
  }
  TAUT_TRY(hdf5::Writer writer, hdf5::Writer::create(path, arrays));
  std::vector<float> block(kBlockFloats);
  std::size_t array = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (std::size_t blob = 0; blob < layers[layer].blobs.size(); ++blob, ++array) {
      const std::uint64_t count = count_of(layers[layer].blobs[blob]);
      for (std::uint64_t first = 0; first < count; first += kBlockFloats) {
        const auto part = std::span(block).first(
            static_cast<std::size_t>(std::min<std::uint64_t>(kBlockFloats, count - first)));
        TAUT_TRY(read(layer, blob, first, part));
        TAUT_TRY(writer.write(array, first, part));
      }
    }
  }
  return writer.finish();
}

}  // namespace taut::caffe
