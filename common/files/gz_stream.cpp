#include "common/files/gz_stream.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "common/files/folder.hpp"
#include "common/files/regular_file.hpp"
#include "common/system/memory.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kGzipWindow = 15 + 16;  // in zlib's encoding: gzip's header, the largest window
constexpr std::byte kGzipMagic[] = {std::byte{0x1f}, std::byte{0x8b}};

}  // namespace

struct GzStream::State {
  explicit State(fs::path path_, Descriptor file_)
      : path(std::move(path_)), file(std::move(file_)) {}
  ~State() {
    if (is_packed) inflateEnd(&packed);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::span<std::byte> rest() { return std::span(block).subspan(begin, end - begin); }

  /// Fills the block if it is empty. Afterwards it is empty only at the end of the file.
  Result<void> fill() {
    if (begin < end) return ok();
    begin = end = 0;
    while (end < block.size()) {
      const ssize_t count = ::read(file.get(), block.data() + end, block.size() - end);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return io_error(path, "be read");
      if (count == 0) break;
      end += static_cast<std::size_t>(count);
    }
    return ok();
  }

  [[nodiscard]] Error damaged() const {
    return invalid(fmt::format("{}: damaged or truncated gzip stream after {} bytes", path.string(),
                               unpacked));
  }

  /// Between two members: whether another one follows. Skips zeros, as gzip does.
  Result<bool> begins_member() {
    while (true) {
      TAUT_TRY(fill());
      const auto bytes = rest();
      if (bytes.empty()) return false;
      const auto first =
          std::ranges::find_if(bytes, [](std::byte one) { return one != std::byte{}; });
      begin += static_cast<std::size_t>(first - bytes.begin());
      if (begin == end) continue;
      if (inflateReset(&packed) != Z_OK) return damaged();
      return true;
    }
  }

  /// Unpacks up to out.size() bytes, at least one unless the file has ended.
  Result<std::size_t> unpack(std::span<std::byte> out) {
    out = out.first(std::min<std::size_t>(out.size(), std::numeric_limits<int>::max()));
    while (true) {
      if (!in_member) {
        TAUT_TRY(in_member, begins_member());
        if (!in_member) return std::size_t{0};
      }
      TAUT_TRY(fill());
      const auto bytes = rest();
      if (bytes.empty()) return damaged();
      packed.next_in = reinterpret_cast<Bytef*>(bytes.data());
      packed.avail_in = static_cast<uInt>(bytes.size());
      packed.next_out = reinterpret_cast<Bytef*>(out.data());
      packed.avail_out = static_cast<uInt>(out.size());
      const int state = inflate(&packed, Z_NO_FLUSH);
      const std::size_t taken = bytes.size() - packed.avail_in;
      const std::size_t count = out.size() - packed.avail_out;
      begin += taken;
      unpacked += count;
      if (state == Z_STREAM_END) {
        in_member = false;
      } else if (state != Z_OK || (taken == 0 && count == 0)) {
        return damaged();
      }
      if (count > 0) return count;
    }
  }

  Result<std::size_t> copy(std::span<std::byte> out) {
    TAUT_TRY(fill());
    const auto bytes = rest().first(std::min(out.size(), end - begin));
    std::ranges::copy(bytes, out.begin());
    begin += bytes.size();
    return bytes.size();
  }

  const fs::path path;
  const Descriptor file;
  std::array<std::byte, kReadBytes> block;
  std::size_t begin = 0;  // unread bytes of the block: [begin, end)
  std::size_t end = 0;
  bool is_packed = false;
  bool in_member = false;
  z_stream packed{};
  std::uint64_t unpacked = 0;  // total bytes so far
};

GzStream::GzStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
GzStream::~GzStream() = default;
GzStream::GzStream(GzStream&& other) noexcept = default;
GzStream& GzStream::operator=(GzStream&& other) noexcept = default;

Result<GzStream> GzStream::open(const fs::path& path) {
  TAUT_TRY(Descriptor file, open_to_read(path));
  auto state = std::make_unique<State>(path, std::move(file));
  TAUT_TRY(state->fill());
  const auto bytes = state->rest();
  if (bytes.size() >= std::size(kGzipMagic) &&
      std::ranges::equal(bytes.first(std::size(kGzipMagic)), kGzipMagic)) {
    if (inflateInit2(&state->packed, kGzipWindow) != Z_OK) {
      return make_error(ErrorCode::kIo, path.string() + ": zlib could not start");
    }
    state->is_packed = state->in_member = true;
  }
  return GzStream(std::move(state));
}

bool GzStream::is_packed() const {
  return state_->is_packed;
}

Result<std::size_t> GzStream::read(std::span<std::byte> out) {
  std::size_t count = 0;
  while (count < out.size()) {
    const auto to = out.subspan(count);
    TAUT_TRY(const std::size_t more, state_->is_packed ? state_->unpack(to) : state_->copy(to));
    if (more == 0) break;
    count += more;
  }
  return count;
}

Bytes in_memory_limit(Bytes limit) {
  const std::uint64_t available = available_memory().value();
  return available == 0 ? limit : std::min(limit, Bytes(available / 2));
}

}  // namespace taut
