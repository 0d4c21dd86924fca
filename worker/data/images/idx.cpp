#include "worker/data/images/idx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "common/files/gz_stream.hpp"

namespace taut::data {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kExtentBytes = 4;
constexpr std::uint32_t kUnsignedByte = 0x08;
constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

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
    if (extent == 0 || extent > kMaxIdx.value() / elements) {
      return invalid(
          fmt::format("{}: extent {} is {}; all of them multiply to 1 at least and {} at "
                      "most",
                      name, i, extent, kMaxIdx.value()));
    }
    elements *= extent;
    found.push_back(extent);
  }
  return found;
}

std::size_t header_bytes_of(std::size_t extents) {
  return kMagicBytes + kExtentBytes * extents;
}

/// The extents of the file that the stream is at the start of, and their bytes.
struct Head {
  std::string bytes;
  std::vector<std::uint64_t> extents;
};

Result<Head> read_head(GzStream& stream, const std::string& name, std::size_t extents) {
  Head head;
  head.bytes.resize(header_bytes_of(extents));
  TAUT_TRY(const std::size_t count, stream.read(std::as_writable_bytes(std::span(head.bytes))));
  head.bytes.resize(count);
  TAUT_TRY(head.extents, parse_head(head.bytes, name, extents));
  return head;
}

std::uint64_t elements_of(const std::vector<std::uint64_t>& extents) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : extents) elements *= extent;
  return elements;
}

Error wrong_size(const std::string& name, const std::vector<std::uint64_t>& extents,
                 std::uint64_t held, const char* more) {
  const std::uint64_t elements = elements_of(extents);
  return invalid(
      fmt::format("{}: {}: {} elements need {} bytes after the header, and there are {}{}", name,
                  held < elements ? "truncated" : "has trailing bytes", fmt::join(extents, "x"),
                  elements, held, more));
}

}  // namespace

Result<Idx> parse_idx(std::string file, const std::string& name, std::size_t extents) {
  Idx idx;
  TAUT_TRY(idx.extents, parse_head(file, name, extents));
  idx.header_bytes = header_bytes_of(extents);
  const std::uint64_t held = file.size() - idx.header_bytes;
  if (held != elements_of(idx.extents)) return wrong_size(name, idx.extents, held, "");
  idx.file = std::move(file);
  return idx;
}

Result<std::vector<std::uint64_t>> read_idx_extents(const std::filesystem::path& path,
                                                    std::size_t extents) {
  TAUT_TRY(GzStream stream, GzStream::open(path));
  TAUT_TRY(Head head, read_head(stream, path.string(), extents));
  return std::move(head.extents);
}

Result<Idx> read_idx(const std::filesystem::path& path, std::size_t extents, Bytes limit) {
  const std::string name = path.string();
  TAUT_TRY(GzStream stream, GzStream::open(path));
  TAUT_TRY(Head head, read_head(stream, name, extents));
  const Bytes most = in_memory_limit(limit);
  const std::uint64_t elements = elements_of(head.extents);
  if (elements > most.value()) {
    return invalid(fmt::format("{}: {} elements need {} bytes of memory; the limit is {}{}", name,
                               fmt::join(head.extents, "x"), elements, most.value(),
                               most < limit ? ", half of what is available" : ""));
  }
  Idx idx;
  idx.extents = std::move(head.extents);
  idx.header_bytes = head.bytes.size();
  idx.file = std::move(head.bytes);
  // Address space is reserved for all announced bytes; memory is used only as bytes are read.
  idx.file.reserve(idx.header_bytes + elements);
  std::vector<char> block(kReadBytes);
  for (std::uint64_t held = 0; held < elements;) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), elements - held)));
    TAUT_TRY(const std::size_t count, stream.read(std::as_writable_bytes(part)));
    idx.file.append(part.data(), count);
    held += count;
    if (count < part.size()) return wrong_size(name, idx.extents, held, "");
  }
  TAUT_TRY(const std::size_t more, stream.read(std::as_writable_bytes(std::span(block).first(1))));
  if (more > 0) return wrong_size(name, idx.extents, elements + more, " at least");
  return idx;
}

}  // namespace taut::data
