#include "common/net/ucx/ucx_parts.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

// Numbers are little-endian, as in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

constexpr std::uint32_t kMagic = 0x31585554;  // "TUX1": the version is part of it
constexpr std::size_t kSizeBytes = sizeof(std::uint64_t);

/// The header as it is sent.
struct WireHeader {
  std::uint32_t magic;
  std::uint32_t kind;
  std::uint32_t frames;
  std::uint32_t separate;
  std::uint64_t connection;
  std::uint64_t sequence;
};
static_assert(sizeof(WireHeader) == 32);

/// Small frames start at multiples of 8 bytes.
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

Error too_large(std::uint64_t limit) {
  return invalid(fmt::format("a message has more than {} bytes in all", limit));
}

}  // namespace

std::vector<std::byte> UcxPart::with(std::span<const std::byte> secret) const {
  const WireHeader head{kMagic,  static_cast<std::uint32_t>(kind), frames, separate, connection,
                        sequence};
  std::vector<std::byte> bytes(sizeof head + secret.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!secret.empty()) std::memcpy(bytes.data() + sizeof head, secret.data(), secret.size());
  return bytes;
}

std::optional<ReceivedPart> read_ucx_part(std::span<const std::byte> header) {
  WireHeader head{};
  if (header.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, header.data(), sizeof head);
  const bool is_known = head.kind >= static_cast<std::uint32_t>(UcxPartKind::kHello) &&
                        head.kind <= static_cast<std::uint32_t>(UcxPartKind::kFrame);
  if (head.magic != kMagic || !is_known) return std::nullopt;
  return ReceivedPart{{static_cast<UcxPartKind>(head.kind), head.frames, head.separate,
                       head.connection, head.sequence},
                      header.subspan(sizeof head)};
}

Buffer ucx_body(const Message& message, BufferPool& pool) {
  const std::size_t table = message.frames.size() * kSizeBytes;
  std::size_t size = table;
  for (const Frame& frame : message.frames) {
    if (!is_separate_frame(frame.size())) size += padded(frame.size());
  }
  Buffer body = pool.acquire(size);
  std::byte* sizes = body.data();
  std::byte* small = body.data() + table;
  for (const Frame& frame : message.frames) {
    const std::uint64_t bytes = frame.size();
    std::memcpy(sizes, &bytes, kSizeBytes);
    sizes += kSizeBytes;
    if (frame.empty() || is_separate_frame(frame.size())) continue;
    std::memcpy(small, frame.bytes().data(), frame.size());
    const std::size_t padding = padded(frame.size()) - frame.size();
    std::memset(small + frame.size(), 0, padding);
    small += frame.size() + padding;
  }
  return body;
}

Result<void> UcxAssembly::take_body(const UcxPart& part, const Buffer& body, std::size_t max_frames,
                                    std::uint64_t max_frame) {
  if (has_body_) return invalid("a message has two heads");
  has_body_ = true;
  expected_ = part.separate;
  const std::size_t table = part.frames * kSizeBytes;
  if (part.frames == 0 || part.separate > part.frames || body.size() < table) {
    return invalid(fmt::format("a message's head has {} bytes for {} frames, {} of them apart",
                               body.size(), part.frames, part.separate));
  }
  if (part.frames > max_frames) {
    is_dropped_ = true;
    return ok();
  }
  bytes_ += body.size();
  const Frame whole(body);
  std::size_t at = table;
  std::size_t separate = 0;
  std::uint64_t message = 0;
  for (std::uint32_t i = 0; i < part.frames; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, body.data() + i * kSizeBytes, kSizeBytes);
    if (size > max_frame) {
      return invalid(fmt::format("a frame has {} bytes; the limit is {}", size, max_frame));
    }
    message += size;
    if (message > max_message_) return too_large(max_message_);
    sizes_.push_back(size);
    if (is_separate_frame(size)) {
      ++separate;
      message_.frames.emplace_back();
      continue;
    }
    if (body.size() - at < padded(size)) return invalid("a message's head is cut off");
    message_.frames.push_back(size == 0 ? Frame() : whole.part(at, size));
    at += padded(size);
  }
  const bool fits = at == body.size() && separate == part.separate;
  if (!fits) return invalid("a message's head and its sizes differ");
  for (const auto& [which, frame] : separate_) {
    if (which >= sizes_.size() || sizes_[which] != frame.size()) {
      return invalid("a frame has another size than its message's head says");
    }
  }
  return ok();
}

Result<void> UcxAssembly::take_frame(std::uint32_t which, Frame frame) {
  if (!is_separate_frame(frame.size())) return invalid("a small frame arrived apart");
  const bool has_size = has_body_ && !is_dropped_;
  if (has_size && (which >= sizes_.size() || sizes_[which] != frame.size())) {
    return invalid("a frame has another size than its message's head says");
  }
  bytes_ += frame.size();
  separate_bytes_ += frame.size();
  if (separate_bytes_ > max_message_) return too_large(max_message_);
  const bool is_new = separate_.emplace(which, is_dropped_ ? Frame() : std::move(frame)).second;
  if (!is_new) return invalid("a frame arrived twice");
  return ok();
}

Message UcxAssembly::take() {
  for (auto& [which, frame] : separate_) message_.frames[which] = std::move(frame);
  return std::move(message_);
}

}  // namespace taut
