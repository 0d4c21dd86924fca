#include <fmt/format.h>

#include <string>

#include "proto/control_message.hpp"
#include "proto/message_limits.hpp"
#include "proto/wire_version.hpp"

namespace taut {
Message encode(const pb::ControlMessage& message) {
  std::string bytes;
  append_prefix(Plane::kControl, bytes);
  if (check_limits(message)) {
    message.AppendToString(&bytes);
  } else {
    pb::ControlMessage within = message;
    cut_to_limits(within);
    within.AppendToString(&bytes);
  }
  Message frames;
  frames.frames.push_back(Frame::copy_of(bytes));
  return frames;
}

Result<pb::ControlMessage> decode_control(const Message& frames) {
  if (frames.frames.size() != 1) {
    return invalid(fmt::format("a control message of {} frames; it has one", frames.frames.size()));
  }
  const Frame& frame = frames.frames[0];
  TAUT_TRY(const std::uint16_t version, read_prefix(Plane::kControl, frame));
  if (frame.size() > kMaxControlBytes) {
    return invalid(fmt::format("a control message of {} bytes; the limit is {}", frame.size(),
                               kMaxControlBytes));
  }
  pb::ControlMessage message;
  TAUT_TRY(check_parsed_bytes(message, frame.bytes().subspan(kPrefixBytes)));
  if (!message.ParseFromArray(frame.bytes().data() + kPrefixBytes,
                              static_cast<int>(frame.size() - kPrefixBytes))) {
    return invalid(fmt::format("a control message of {} bytes that does not parse", frame.size()));
  }
  // Hello and its reply are decoded in any version, so that both sides can report a mismatch.
  if (version != kWireVersion && !message.has_hello() && !message.has_hello_reply()) {
    return make_error(ErrorCode::kMismatch,
                      fmt::format("a control message of wire version {}; this side has {}", version,
                                  kWireVersion));
  }
  if (message.body_case() == pb::ControlMessage::BODY_NOT_SET) {
    return invalid("a control message without a body that this version knows");
  }
  TAUT_TRY(check_limits(message));
  make_printable(message);
  return message;
}

}  // namespace taut
