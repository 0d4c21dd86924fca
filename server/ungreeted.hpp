#pragma once

#include <optional>

#include "common/net/endpoint.hpp"
#include "proto/data.pb.h"

namespace taut::server {

/// What is read of a message of the data plane before it is decoded.
struct Envelope {
  JobId job;
  pb::DataHeader::BodyCase body = pb::DataHeader::BODY_NOT_SET;
};

/// nullopt: the first frame is no header of this wire version.
[[nodiscard]] std::optional<Envelope> envelope_of(const Message& message);

/// Whether a message of a connection that has not said hello may be decoded: a hello; and between
/// servers, which agree on nothing first, images, parts and their answers.
/// sender  nullptr: there are no keys, and any may be a server
[[nodiscard]] bool may_decode_ungreeted(const Envelope& envelope, const Identity* sender);

}  // namespace taut::server
