#include "common/net/zmq/zmq_frames.hpp"

#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/thread_sanitizer.hpp"

namespace taut {
namespace {

/// What a frame that ZeroMQ has not sent yet keeps.
struct Queued {
  Queued(std::shared_ptr<const void> what, const UnreadBytes* whose, std::uint64_t how_many)
      : owner(std::move(what)), bytes(how_many) {
    if (whose != nullptr) unread = *whose;
    if (unread) unread->add(bytes);
  }
  ~Queued() {
    if (unread) unread->remove(bytes);
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;

  const std::shared_ptr<const void> owner;
  std::optional<UnreadBytes> unread;
  const std::uint64_t bytes;
};

// ZeroMQ calls this from its I/O thread once the bytes are on the wire.
void release_owner(void* /*bytes*/, void* queued) noexcept {
  thread_sanitizer::acquire(queued);
  delete static_cast<Queued*>(queued);
}

}  // namespace

zmq::message_t to_zmq(const Frame& frame, const UnreadBytes* unread, std::uint64_t bytes) {
  if (unread == nullptr && frame.size() < kCopyBelow) {
    return {frame.bytes().data(), frame.size()};
  }
  auto owner = std::make_unique<Queued>(frame.owner(), unread, bytes);
  zmq::message_t message(const_cast<std::byte*>(frame.bytes().data()), frame.size(), release_owner,
                         owner.get());
  const auto* const kept = owner.release();
  thread_sanitizer::release(kept);
  return message;
}

TAUT_UNSEEN_BY_THREAD_SANITIZER std::string property_of(zmq::message_t& message, const char* name) {
  std::string copy;
  const char* text = zmq_msg_gets(message.handle(), name);
  while (text != nullptr && *text != '\0') copy.push_back(*text++);
  return copy;
}

int descriptor_of(zmq::message_t& message) {
  const std::string text = property_of(message, "__fd");  // what ZMQ_SRCFD reads
  int descriptor = -1;
  std::from_chars(text.data(), text.data() + text.size(), descriptor);
  return descriptor;
}

Frame from_zmq(zmq::message_t&& message) {
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(owner->data()),
                                         owner->size());
  return {std::move(owner), bytes};
}

}  // namespace taut
