#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/net/message.hpp"
#include "common/result.hpp"

namespace taut {

/// The kind of an active message: docs/WIRE.md, section 1a.
enum class UcxPartKind : std::uint8_t {
  kHello = 1,    // first, from the side that connects
  kWelcome = 2,  // the answer: messages may follow
  kRefused = 3,  // the answer to a secret that is not admitted
  kMessage = 4,  // the head of a message, with its small frames
  kFrame = 5,    // one large frame of a message
};

/// The header of an active message, without the secret that follows it.
struct UcxPart {
  UcxPartKind kind = UcxPartKind::kMessage;
  std::uint32_t frames = 0;      // kMessage: how many; kFrame: which one
  std::uint32_t separate = 0;    // kMessage: how many of its frames are separate parts
  std::uint64_t connection = 0;  // the receiver's number of it; kHello: the sender's
  std::uint64_t sequence = 0;    // of the message, from 0; kWelcome: the sender's number

  /// The header's bytes with a secret, which may be empty.
  [[nodiscard]] std::vector<std::byte> with(std::span<const std::byte> secret) const;
};

struct ReceivedPart {
  UcxPart part;
  std::span<const std::byte> secret;
};

/// nullopt if the bytes are of something else or of another version.
[[nodiscard]] std::optional<ReceivedPart> read_ucx_part(std::span<const std::byte> header);

/// Whether a frame is a separate part, which arrives in its own memory and is not copied on the
/// way. Both sides must agree on it.
inline constexpr std::size_t kSeparateFrom = 16UL << 10U;
[[nodiscard]] constexpr bool is_separate_frame(std::size_t size) {
  return size >= kSeparateFrom;
}

/// The body of a kMessage: the sizes of all frames and the bytes of the small ones.
[[nodiscard]] Buffer ucx_body(const Message& message, BufferPool& pool);

/// A message whose parts arrive in any order.
class UcxAssembly {
 public:
  /// max_message  limit on the bytes of all its frames together
  explicit UcxAssembly(std::uint64_t max_message = std::numeric_limits<std::uint64_t>::max())
      : max_message_(max_message) {}

  /// Errors    invalid: bytes that Tautline never sends
  [[nodiscard]] Result<void> take_body(const UcxPart& part, const Buffer& body,
                                       std::size_t max_frames, std::uint64_t max_frame);
  [[nodiscard]] Result<void> take_frame(std::uint32_t which, Frame frame);
  [[nodiscard]] bool is_complete() const { return has_body_ && separate_.size() == expected_; }
  /// Whether the message must be dropped once complete: it has too many frames.
  [[nodiscard]] bool is_dropped() const { return is_dropped_; }
  /// Bytes that it keeps.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// REQUIRES: complete, and not dropped.
  [[nodiscard]] Message take();

 private:
  std::uint64_t max_message_;
  std::uint64_t separate_bytes_ = 0;  // of frames that have arrived
  bool has_body_ = false;
  bool is_dropped_ = false;
  std::uint64_t bytes_ = 0;
  std::size_t expected_ = 0;  // frames that are separate parts
  Message message_;
  std::vector<std::uint64_t> sizes_;
  std::map<std::uint32_t, Frame> separate_;
};

}  // namespace taut
