#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "common/check.hpp"
#include "common/float16.hpp"
#include "common/safetensors.hpp"

namespace taut::safetensors {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBlockBytes = 64 << 10;

Result<void> read_at(int file, std::uint64_t offset, std::span<std::byte> out,
                     const std::string& name) {
  while (!out.empty()) {
    const ssize_t count = pread(file, out.data(), out.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return make_error(ErrorCode::kIo, fmt::format("{}: cannot be read: {}", name,
                                                    std::generic_category().message(errno)));
    }
    if (count == 0) {
      return make_error(
          ErrorCode::kIo,
          fmt::format("{}: ends at byte {}: it was cut while it was read", name, offset));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return ok();
}

template <class Stored, class Convert>
void convert_block(const std::byte* block, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, block + i * sizeof stored, sizeof stored);
    out[i] = convert(stored);
  }
}

void convert_block(ElementType type, const std::byte* block, std::span<float> out) {
  switch (type) {
    case ElementType::kF16:
      return convert_block<std::uint16_t>(block, out, half_to_float);
    case ElementType::kBF16:
      return convert_block<std::uint16_t>(block, out, bfloat16_to_float);
    default:
      return convert_block<double>(block, out,
                                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace

Reader::Reader(fs::path path, int file) : path_(std::move(path)), file_(file) {}

Reader::~Reader() {
  if (file_ >= 0) close(file_);
}

Reader::Reader(Reader&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      head_(std::move(other.head_)),
      by_name_(std::move(other.by_name_)) {}

Reader& Reader::operator=(Reader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(head_, other.head_);
  std::swap(by_name_, other.by_name_);
  return *this;
}

Result<Reader> Reader::open(const fs::path& path) {
  const std::string name = path.string();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const auto code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return make_error(code, fmt::format("{}: cannot be opened: {}", name,
                                        std::generic_category().message(errno)));
  }
  Reader reader(path, file);
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    return invalid(fmt::format("{}: is no file", name));
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  std::array<std::byte, sizeof(std::uint64_t)> length_bytes{};
  const std::size_t available = std::min<std::uint64_t>(file_bytes, length_bytes.size());
  TAUT_TRY(read_at(file, 0, std::span(length_bytes).first(available), name));
  TAUT_TRY(const std::uint64_t length,
           parse_head_length(std::span(length_bytes).first(available), file_bytes, name));
  std::vector<std::byte> json(length);
  TAUT_TRY(read_at(file, length_bytes.size(), json, name));
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
    return invalid(fmt::format("{}: {} has {} bytes, and {} from byte {} on were asked for",
                               path_.string(), tensor.name, tensor.bytes(), out.size(), first));
  }
  return read_at(file_, head_.data_begin + tensor.begin + first, out, path_.string());
}

Result<void> Reader::read_floats(const Tensor& tensor, std::uint64_t first,
                                 std::span<float> out) const {
  const ElementType type = tensor.type;
  if (first > tensor.count() || out.size() > tensor.count() - first) {
    return invalid(fmt::format("{}: {} has {} elements, and {} from number {} on were asked for",
                               path_.string(), tensor.name, tensor.count(), out.size(), first));
  }
  if (type == ElementType::kF32) return read_bytes(tensor, first * 4, std::as_writable_bytes(out));
  if (type != ElementType::kF16 && type != ElementType::kBF16 && type != ElementType::kF64) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: {} holds {}; F32, F16, BF16 and F64 are read as numbers",
                                  path_.string(), tensor.name, to_string(type)));
  }
  std::vector<std::byte> block(kBlockBytes);
  const std::size_t each = bytes_of(type);
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), kBlockBytes / each);
    TAUT_TRY(read_bytes(tensor, first * each, std::span(block).first(count * each)));
    convert_block(type, block.data(), out.first(count));
    out = out.subspan(count);
    first += count;
  }
  return ok();
}

}  // namespace taut::safetensors
