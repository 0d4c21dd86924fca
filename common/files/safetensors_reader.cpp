#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/files/safetensors.hpp"

namespace taut::safetensors {

Result<Reader> Reader::open(const std::filesystem::path& path) {
  TAUT_TRY(TensorFile file, TensorFile::open(path));
  return open(std::move(file));
}

Result<Reader> Reader::open(TensorFile file) {
  const std::string name = file.path().string();
  Reader reader(std::move(file));
  const std::uint64_t file_bytes = reader.file_.bytes();
  std::array<std::byte, sizeof(std::uint64_t)> length_bytes{};
  const auto start =
      std::span(length_bytes).first(std::min<std::uint64_t>(file_bytes, length_bytes.size()));
  TAUT_TRY(reader.file_.read_bytes(0, start));
  TAUT_TRY(const std::uint64_t length, parse_head_length(start, file_bytes, name));
  std::vector<std::byte> json(length);
  TAUT_TRY(reader.file_.read_bytes(length_bytes.size(), json));
  TAUT_TRY(reader.head_, parse_head(json, file_bytes, name));
  for (std::size_t i = 0; i < reader.head_.tensors.size(); ++i) {
    reader.by_name_.emplace(reader.head_.tensors[i].name, i);
  }
  return reader;
}

const Tensor* Reader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &head_.tensors[found->second];
}

Result<void> Reader::read_bytes(const Tensor& tensor, std::uint64_t first,
                                std::span<std::byte> out) const {
  if (first > tensor.bytes() || out.size() > tensor.bytes() - first) {
    return invalid(fmt::format("{}: {} has {} bytes; {} were requested from byte {} on",
                               path().string(), tensor.name, tensor.bytes(), out.size(), first));
  }
  return file_.read_bytes(head_.data_begin + tensor.begin + first, out);
}

Result<void> Reader::read_floats(const Tensor& tensor, std::uint64_t first,
                                 std::span<float> out) const {
  if (first > tensor.count() || out.size() > tensor.count() - first) {
    return invalid(fmt::format("{}: {} has {} elements; {} were requested from number {} on",
                               path().string(), tensor.name, tensor.count(), out.size(), first));
  }
  const std::uint64_t offset = head_.data_begin + tensor.begin + first * bytes_of(tensor.type);
  return file_.read_floats(tensor.type, offset, out);
}

}  // namespace taut::safetensors
