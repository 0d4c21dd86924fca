#pragma once

#include <optional>

#include "common/net/endpoint.hpp"
#include "proto/data.pb.h"

namespace taut::server {

/// The parts of a data-plane message that are read before it is decoded.
struct Envelope {
  JobId job;
  pb::DataHeader::BodyCase body = pb::DataHeader::BODY_NOT_SET;
};

/// Reads a message's envelope; nullopt if the first frame is not a header of this wire version.
[[nodiscard]] std::optional<Envelope> envelope_of(const Message& message);

/// Whether a message of a connection that has not said hello may be decoded: a hello may, and so
/// may images, parts and their answers between servers, which send no hello.
/// sender  nullptr without keys: any sender may then be a server
[[nodiscard]] bool may_decode_ungreeted(const Envelope& envelope, const Identity* sender);

}  // namespace taut::server
