#include "server/ungreeted.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "proto/wire_version.hpp"

namespace taut::server {
namespace {

using google::protobuf::internal::WireFormatLite;

bool is_body(int field) {
  return field >= pb::DataHeader::kHello && field <= pb::DataHeader::kConfirmReply;
}

}  // namespace

std::optional<Envelope> envelope_of(const Message& message) {
  if (message.frames.empty()) return std::nullopt;
  const Frame& header = message.frames.front();
  const auto version = read_prefix(Plane::kData, header);
  if (!version || version.value() != kWireVersion) return std::nullopt;
  const auto bytes = header.bytes().subspan(kPrefixBytes);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  Envelope envelope;
  while (const std::uint32_t tag = stream.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const auto type = WireFormatLite::GetTagWireType(tag);
    if (field == pb::DataHeader::kJobFieldNumber && type == WireFormatLite::WIRETYPE_FIXED64) {
      std::uint64_t job = 0;
      if (!stream.ReadLittleEndian64(&job)) return std::nullopt;
      envelope.job = JobId(job);
      continue;
    }
    // The last of several bodies counts. A field of another type is not a body, for the parser
    // either.
    if (is_body(field) && type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      envelope.body = static_cast<pb::DataHeader::BodyCase>(field);
    }
    if (!WireFormatLite::SkipField(&stream, tag)) return std::nullopt;
  }
  if (!stream.ConsumedEntireMessage()) return std::nullopt;
  return envelope;
}

bool may_decode_ungreeted(const Envelope& envelope, const Identity* sender) {
  const bool may_be_server =
      sender == nullptr || sender->role == KeyRole::kServer || sender->role == KeyRole::kOwner;
  switch (envelope.body) {
    case pb::DataHeader::kHello:
      return true;
    case pb::DataHeader::kImages:
    case pb::DataHeader::kImagesReply:
    case pb::DataHeader::kPartRequest:
    case pb::DataHeader::kPartReply:
      return may_be_server;
    default:
      return false;
  }
}

}  // namespace taut::server
