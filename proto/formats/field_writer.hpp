#pragma once

#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <string>

// Writes protobuf's wire format directly, for messages whose numbers are written in pieces.
namespace taut {

inline void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  out += static_cast<char>(value);
}

/// A length-delimited field, up to its first byte of content.
inline void put_length(std::string& out, int field, std::uint64_t length) {
  using Wire = google::protobuf::internal::WireFormatLite;
  put_varint(out, Wire::MakeTag(field, Wire::WIRETYPE_LENGTH_DELIMITED));
  put_varint(out, length);
}

inline void put_text(std::string& out, int field, const std::string& text) {
  put_length(out, field, text.size());
  out += text;
}

}  // namespace taut
