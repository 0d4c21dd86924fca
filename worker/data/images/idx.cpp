#include "worker/data/images/idx.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/files/file.hpp"
#include "common/files/regular_file.hpp"

namespace taut::data {
namespace {

constexpr Bytes kMaxFile{4ULL << 30};
constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kExtentBytes = 4;
constexpr std::uint32_t kUnsignedByte = 0x08;

/// REQUIRES: four bytes at `offset`.
std::uint32_t big_endian(const std::string& bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8U | static_cast<unsigned char>(bytes[offset + i]);
  }
  return value;
}

Result<void> check_magic(const std::string& file, const std::string& name, std::size_t extents) {
  if (file.size() < kMagicBytes) {
    return invalid(fmt::format("{}: truncated: {} bytes, an IDX file's magic number alone has {}",
                               name, file.size(), kMagicBytes));
  }
  const std::uint32_t magic = big_endian(file, 0);
  if (magic >> 16U != 0) {
    return invalid(
        fmt::format("{}: no IDX file: its magic number must be {:#010x}, is "
                    "{:#010x}",
                    name, kUnsignedByte << 8U | extents, magic));
  }
  if (magic >> 8U != kUnsignedByte) {
    return invalid(
        fmt::format("{}: holds elements of type {:#04x}; only unsigned bytes ({:#04x}) "
                    "are read",
                    name, magic >> 8U, kUnsignedByte));
  }
  if ((magic & 0xFFU) != extents) {
    return invalid(fmt::format("{}: has {} extents instead of {}: images have 3, labels have 1",
                               name, magic & 0xFFU, extents));
  }
  return ok();
}

/// The extents in the first bytes of a file.
Result<std::vector<std::uint64_t>> parse_head(const std::string& file, const std::string& name,
                                              std::size_t extents) {
  TAUT_TRY(check_magic(file, name, extents));
  const std::size_t header_bytes = kMagicBytes + kExtentBytes * extents;
  if (file.size() < header_bytes) {
    return invalid(fmt::format("{}: truncated: {} bytes, the header alone has {}", name,
                               file.size(), header_bytes));
  }
  std::vector<std::uint64_t> found;
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < extents; ++i) {
    const std::uint64_t extent = big_endian(file, kMagicBytes + kExtentBytes * i);
    if (extent == 0 || extent > kMaxFile.value() / elements) {
      return invalid(
          fmt::format("{}: extent {} is {}; all of them multiply to 1 at least and {} at "
                      "most",
                      name, i, extent, kMaxFile.value()));
    }
    elements *= extent;
    found.push_back(extent);
  }
  return found;
}

}  // namespace

Result<Idx> parse_idx(std::string file, const std::string& name, std::size_t extents) {
  Idx idx;
  TAUT_TRY(idx.extents, parse_head(file, name, extents));
  idx.header_bytes = kMagicBytes + kExtentBytes * extents;
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : idx.extents) elements *= extent;
  const std::uint64_t held = file.size() - idx.header_bytes;
  if (held != elements) {
    return invalid(
        fmt::format("{}: {}: {} elements need {} bytes after the header, and there are "
                    "{}",
                    name, held < elements ? "truncated" : "has trailing bytes",
                    fmt::join(idx.extents, "x"), elements, held));
  }
  idx.file = std::move(file);
  return idx;
}

Result<std::vector<std::uint64_t>> read_idx_extents(const std::filesystem::path& path,
                                                    std::size_t extents) {
  TAUT_TRY(Descriptor opened, open_to_read(path));
  const int number = opened.release();
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(number, "rb"), gzclose);
  if (!file) {
    close(number);
    return make_error(ErrorCode::kIo, path.string() + ": zlib could not start");
  }
  std::string head(kMagicBytes + kExtentBytes * extents, '\0');
  const int got = gzread(file.get(), head.data(), static_cast<unsigned>(head.size()));
  head.resize(static_cast<std::size_t>(std::max(got, 0)));
  return parse_head(head, path.string(), extents);
}

Result<Idx> read_idx(const std::filesystem::path& path, std::size_t extents) {
  TAUT_TRY(std::string file, read_file_gz(path, kMaxFile));
  return parse_idx(std::move(file), path.string(), extents);
}

}  // namespace taut::data
