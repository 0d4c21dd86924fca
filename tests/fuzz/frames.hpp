#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/net/message.hpp"

namespace taut::fuzz {

/// A message out of a fuzzer's bytes: each frame is its size in two bytes, little-endian, and its
/// bytes; the last one takes what is left.
inline Message to_message(std::span<const std::uint8_t> bytes) {
  Message message;
  while (bytes.size() >= 2) {
    const std::size_t requested = bytes[0] | static_cast<std::size_t>(bytes[1]) << 8U;
    bytes = bytes.subspan(2);
    const std::size_t size = std::min(requested, bytes.size());
    message.frames.push_back(Frame::copy_of(std::as_bytes(bytes.first(size))));
    bytes = bytes.subspan(size);
  }
  return message;
}

/// The other way round.
inline std::string to_bytes(const Message& message) {
  std::string bytes;
  for (const Frame& frame : message.frames) {
    bytes += static_cast<char>(frame.size() & 0xffU);
    bytes += static_cast<char>(frame.size() >> 8U);
    bytes += frame.text();
  }
  return bytes;
}

}  // namespace taut::fuzz
