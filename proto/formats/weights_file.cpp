#include "proto/formats/weights_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/files/safetensors.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "proto/formats/caffe_hdf5.hpp"
#include "proto/formats/caffe_model.hpp"

namespace taut {
namespace {

constexpr std::size_t kHeadBytes = 16;
constexpr std::string_view kZip{"PK\x03\x04"};

std::vector<StoredTensor> tensors_of(const safetensors::Reader& reader) {
  std::vector<StoredTensor> tensors;
  for (const safetensors::Tensor& tensor : reader.tensors()) {
    tensors.push_back({tensor.name, tensor.shape, tensor.type, reader.data_begin() + tensor.begin});
  }
  return tensors;
}

/// Whether the JSON of a header follows its length.
bool looks_like_safetensors(std::string_view head) {
  return head.size() > 8 && head[8] == '{' && head.substr(5, 3) == std::string_view("\0\0\0", 3);
}

}  // namespace

bool is_weights_name(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".caffemodel" ||
         path.extension() == ".h5";
}

Result<WeightsFile> open_weights(const std::filesystem::path& path) {
  TAUT_TRY(TensorFile file, TensorFile::open(path));
  std::string head(std::min<std::uint64_t>(kHeadBytes, file.bytes()), '\0');
  TAUT_TRY(file.read_bytes(0, std::as_writable_bytes(std::span(head))));
  if (head.starts_with(hdf5::kSignature) || path.extension() == ".h5") {
    TAUT_TRY(auto tensors, caffe::scan_hdf5_model(file));
    return WeightsFile{std::move(file), std::move(tensors)};
  }
  if (head.starts_with(kZip)) {
    return invalid(
        fmt::format("{}: is PyTorch's own format, which is not read: save it with "
                    "safetensors.torch.save_file",
                    path.string()));
  }
  if (path.extension() == ".safetensors" || looks_like_safetensors(head)) {
    TAUT_TRY(const auto reader, safetensors::Reader::open(path));
    return WeightsFile{std::move(file), tensors_of(reader)};
  }
  TAUT_TRY(auto tensors, caffe::scan_model(file));
  return WeightsFile{std::move(file), std::move(tensors)};
}

}  // namespace taut
