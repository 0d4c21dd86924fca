#include "common/files/tensor_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/random_read.hpp"
#include "common/files/regular_file.hpp"
#include "common/files/sha256.hpp"
#include "common/float16.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "stored tensors are little-endian");

constexpr std::size_t kBlockBytes = 256 << 10;
constexpr std::size_t kPinnedBytes = 64 << 10;  // that share one tag
static_assert(kBlockBytes % kPinnedBytes == 0, "whole blocks are read at once");

struct Spelling {
  std::string_view name;
  std::uint64_t bytes;
};

// In the order of ElementType.
constexpr std::array<Spelling, 15> kTypes = {{{"BOOL", 1},
                                              {"U8", 1},
                                              {"I8", 1},
                                              {"F8_E5M2", 1},
                                              {"F8_E4M3", 1},
                                              {"I16", 2},
                                              {"U16", 2},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I32", 4},
                                              {"U32", 4},
                                              {"F32", 4},
                                              {"F64", 8},
                                              {"I64", 8},
                                              {"U64", 8}}};

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
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

std::string_view to_string(ElementType type) {
  return kTypes.at(static_cast<std::size_t>(type)).name;
}

std::optional<ElementType> element_type(std::string_view spelling) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const Spelling& type) { return type.name == spelling; });
  if (found == kTypes.end()) return std::nullopt;
  return static_cast<ElementType>(found - kTypes.begin());
}

std::uint64_t bytes_of(ElementType type) {
  return kTypes.at(static_cast<std::size_t>(type)).bytes;
}

bool reads_as_floats(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF64;
}

TensorFile::TensorFile(fs::path path, int file) : path_(std::move(path)), file_(file) {}

TensorFile::TensorFile(fs::path path, std::uint64_t bytes, std::shared_ptr<const RandomRead> stored)
    : path_(std::move(path)), bytes_(bytes), stored_(std::move(stored)) {}

TensorFile::~TensorFile() {
  if (file_ >= 0) close(file_);
}

TensorFile::TensorFile(TensorFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      modified_ns_(other.modified_ns_),
      stored_(std::move(other.stored_)),
      pinned_(std::move(other.pinned_)) {}

TensorFile& TensorFile::operator=(TensorFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(stored_, other.stored_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

Result<TensorFile> TensorFile::open(const fs::path& path) {
  TAUT_TRY(Descriptor file, open_to_read(path));
  TensorFile opened(path, file.release());
  struct stat status {};
  if (fstat(opened.file_, &status) != 0) {
    return make_error(ErrorCode::kIo,
                      fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
  }
  opened.bytes_ = static_cast<std::uint64_t>(status.st_size);
  opened.modified_ns_ = modified_ns(status);
  return opened;
}

bool TensorFile::has_changed() const {
  if (stored_) return false;
  struct stat status {};
  return fstat(file_, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != bytes_ ||
         modified_ns(status) != modified_ns_;
}

bool TensorFile::was_replaced() const {
  if (stored_) return false;
  struct stat own {};
  struct stat at_path {};
  return fstat(file_, &own) != 0 || stat(path_.c_str(), &at_path) != 0 ||
         own.st_dev != at_path.st_dev || own.st_ino != at_path.st_ino;
}

Result<void> TensorFile::read_bytes(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    return invalid(fmt::format("{}: has {} bytes; {} are required from byte {} on", path_.string(),
                               bytes_, out.size(), offset));
  }
  return pinned_.empty() ? read_unpinned(offset, out) : read_pinned(offset, out);
}

Result<void> TensorFile::read_unpinned(std::uint64_t offset, std::span<std::byte> out) const {
  if (stored_) return stored_->read(offset, out);
  while (!out.empty()) {
    const ssize_t count = pread(file_, out.data(), out.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return make_error(ErrorCode::kIo,
                        fmt::format("{}: cannot be read: {}", path_.string(), reason(errno)));
    }
    if (count == 0) {
      return make_error(
          ErrorCode::kIo,
          fmt::format("{}: ends at byte {}: it was cut while it was read", path_.string(), offset));
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return ok();
}

Result<void> TensorFile::read_pinned(std::uint64_t offset, std::span<std::byte> out) const {
  std::vector<std::byte> whole;
  while (!out.empty()) {
    const std::uint64_t begin = offset / kPinnedBytes * kPinnedBytes;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kPinnedBytes, bytes_ - begin));
    const auto skipped = static_cast<std::size_t>(offset - begin);
    const std::size_t taken = std::min(out.size(), count - skipped);
    whole.resize(taken == count ? 0 : count);
    const auto block = taken == count ? out.first(count) : std::span(whole);
    TAUT_TRY(read_unpinned(begin, block));
    if (block_tag(begin / kPinnedBytes, block) != pinned_[begin / kPinnedBytes]) {
      return make_error(ErrorCode::kMismatch,
                        fmt::format("{}: bytes {} to {} are not what they were when its SHA-256 "
                                    "was compared: it is written while it is read",
                                    path_.string(), begin, begin + count - 1));
    }
    if (taken < count) std::ranges::copy(block.subspan(skipped, taken), out.begin());
    out = out.subspan(taken);
    offset += taken;
  }
  return ok();
}

Result<void> TensorFile::read_floats(ElementType type, std::uint64_t offset,
                                     std::span<float> out) const {
  if (type == ElementType::kF32) return read_bytes(offset, std::as_writable_bytes(out));
  if (!reads_as_floats(type)) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("{}: holds {} at byte {}; F32, F16, BF16 and F64 are read as "
                                  "numbers",
                                  path_.string(), to_string(type), offset));
  }
  std::vector<std::byte> block(kBlockBytes);
  const std::size_t each = bytes_of(type);
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), kBlockBytes / each);
    TAUT_TRY(read_bytes(offset, std::span(block).first(count * each)));
    convert_block(type, block.data(), out.first(count));
    out = out.subspan(count);
    offset += count * each;
  }
  return ok();
}

Result<std::string> TensorFile::pin(const std::atomic<bool>* stops) {
  pinned_.clear();
  std::vector<BlockTag> blocks;
  TAUT_TRY(std::string digest, digest_of(&blocks, stops));
  pinned_ = std::move(blocks);
  return digest;
}

Result<std::string> TensorFile::sha256() const {
  return digest_of(nullptr, nullptr);
}

Result<std::string> TensorFile::digest_of(std::vector<BlockTag>* blocks,
                                          const std::atomic<bool>* stops) const {
  Sha256 digest;
  std::vector<std::byte> block(kBlockBytes);
  for (std::uint64_t offset = 0; offset < bytes_; offset += block.size()) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, bytes_ - offset));
    if (stops != nullptr && *stops) {
      return make_error(
          ErrorCode::kClosed,
          fmt::format("{}: was not read to its end, as this process is stopping", path_.string()));
    }
    TAUT_TRY(read_bytes(offset, std::span(block).first(count)));
    const auto bytes = std::span<const std::byte>(block).first(count);
    digest.update(bytes);
    for (std::size_t begin = 0; blocks != nullptr && begin < count; begin += kPinnedBytes) {
      blocks->push_back(block_tag((offset + begin) / kPinnedBytes,
                                  bytes.subspan(begin, std::min(kPinnedBytes, count - begin))));
    }
  }
  return digest.finish();
}

}  // namespace taut
