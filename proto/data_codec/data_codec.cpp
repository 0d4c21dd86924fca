#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <bit>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/data_codec/image_codec.hpp"
#include "proto/data_codec/item_batch_codec.hpp"
#include "proto/data_message.hpp"
#include "proto/message_limits.hpp"
#include "proto/wire_version.hpp"

// Payload frames are little-endian, as in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

constexpr std::size_t kMaxHeaderBytes = 16UL << 20U;
constexpr std::size_t kMaxPartBytes = 16UL << 20U;

/// One message's header, in memory that the thread reuses: otherwise a batch of a thousand items
/// would cost a thousand allocations.
class HeaderMemory {
 public:
  HeaderMemory() : arena_(options()) {}
  [[nodiscard]] pb::DataHeader& header() { return *header_; }

 private:
  static google::protobuf::ArenaOptions options() {
    static thread_local std::vector<char> first_block(256UL << 10U);
    google::protobuf::ArenaOptions options;
    options.initial_block = first_block.data();
    options.initial_block_size = first_block.size();
    return options;
  }

  google::protobuf::Arena arena_;
  pb::DataHeader* header_ = google::protobuf::Arena::CreateMessage<pb::DataHeader>(&arena_);
};

DataMessage addressed(const pb::DataHeader& header) {
  return {JobId(header.job()), WorkerId(header.worker()), Incarnation(header.incarnation()), {}};
}

/// A request about a part of a checkpoint, or its answer: at most one payload frame.
Result<DataMessage> part_message(pb::DataHeader& header, const Message& frames) {
  DataMessage message = addressed(header);
  if (frames.frames.size() > 2) {
    return invalid(
        fmt::format("{} payload frames with a part of a checkpoint", frames.frames.size() - 1));
  }
  const Frame payload = frames.frames.size() == 2 ? frames.frames[1] : Frame();
  if (payload.size() > kMaxPartBytes) {
    return invalid(fmt::format("{} bytes of a part in one message; the limit is {}", payload.size(),
                               kMaxPartBytes));
  }
  if (header.has_part_reply()) {
    message.body = DataPartReply{std::move(*header.mutable_part_reply()), payload};
    return message;
  }
  pb::PartRequest& request = *header.mutable_part_request();
  if (!pb::PartRequest::Kind_IsValid(request.kind()) ||
      request.kind() == pb::PartRequest::UNKNOWN) {
    return invalid(fmt::format("a request of unknown kind {} about a part of a checkpoint",
                               static_cast<int>(request.kind())));
  }
  if (!payload.empty() && request.kind() != pb::PartRequest::WRITE) {
    return invalid(
        fmt::format("a payload with {} of a part", pb::PartRequest::Kind_Name(request.kind())));
  }
  message.body = DataPartRequest{std::move(request), payload};
  return message;
}

}  // namespace

std::uint64_t payload_bytes(const DataMessage& message) {
  std::uint64_t bytes = 0;
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    for (const DataItem& item : batch->items) bytes += item.payload.size();
  } else if (const auto* sent = std::get_if<DataImages>(&message.body)) {
    for (const ImageItem& image : sent->images) {
      bytes += image.keys.size() + image.values.size();
      for (const Frame& state : image.states) bytes += state.size();
    }
    for (const LoggedUpdate& one : sent->logged) bytes += one.update.gradient.size();
  } else if (const auto* request = std::get_if<DataPartRequest>(&message.body)) {
    bytes = request->payload.size();
  } else if (const auto* reply = std::get_if<DataPartReply>(&message.body)) {
    bytes = reply->payload.size();
  }
  return bytes;
}

Message encode(const DataMessage& message, SharedLink* link) {
  HeaderMemory memory;
  pb::DataHeader& header = memory.header();
  header.set_job(message.job.value());
  header.set_worker(message.worker.value());
  header.set_incarnation(message.incarnation.value());
  Message frames;
  frames.frames.emplace_back();
  struct Body {
    pb::DataHeader& header;
    Message& frames;
    SharedLink* link;
    void operator()(const DataItems& batch) const {
      add_items(batch, *header.mutable_items(), frames, link);
    }
    void operator()(const pb::DataHello& body) const { *header.mutable_hello() = body; }
    void operator()(const pb::DataHelloReply& body) const { *header.mutable_hello_reply() = body; }
    void operator()(const pb::OpenTables& body) const { *header.mutable_open_tables() = body; }
    void operator()(const pb::OpenTablesReply& body) const {
      *header.mutable_open_tables_reply() = body;
    }
    void operator()(const DataImages& batch) const {
      add_images(batch, *header.mutable_images(), frames, link);
    }
    void operator()(const pb::SliceImagesReply& body) const {
      *header.mutable_images_reply() = body;
    }
    void operator()(const pb::Describe& body) const { *header.mutable_describe() = body; }
    void operator()(const pb::Description& body) const { *header.mutable_description() = body; }
    void operator()(const pb::Confirm& body) const { *header.mutable_confirm() = body; }
    void operator()(const pb::ConfirmReply& body) const { *header.mutable_confirm_reply() = body; }
    void operator()(const DataPartRequest& body) const {
      *header.mutable_part_request() = body.head;
      if (!body.payload.empty()) frames.frames.push_back(body.payload);
    }
    void operator()(const DataPartReply& body) const {
      *header.mutable_part_reply() = body.head;
      if (!body.payload.empty()) frames.frames.push_back(body.payload);
    }
  };
  std::visit(Body{header, frames, link}, message.body);
  if (header.has_hello_reply() || header.has_open_tables_reply()) cut_to_limits(header);
  std::string bytes;
  append_prefix(Plane::kData, bytes);
  header.AppendToString(&bytes);
  frames.frames[0] = Frame::copy_of(bytes);
  return frames;
}

namespace {

/// Parses the header of a message, and checks its version and limits.
Result<void> read_header(const Frame& first, pb::DataHeader& header) {
  TAUT_TRY(const std::uint16_t version, read_prefix(Plane::kData, first));
  if (first.size() > kMaxHeaderBytes) {
    return invalid(
        fmt::format("a data header of {} bytes; the limit is {}", first.size(), kMaxHeaderBytes));
  }
  TAUT_TRY(check_parsed_bytes(header, first.bytes().subspan(kPrefixBytes)));
  if (!header.ParseFromArray(first.bytes().data() + kPrefixBytes,
                             static_cast<int>(first.size() - kPrefixBytes))) {
    return invalid(fmt::format("a data header of {} bytes that does not parse", first.size()));
  }
  // Hello and its reply are decoded in any version, so that both sides can report a mismatch.
  const bool greeting = header.has_hello() || header.has_hello_reply();
  if (version != kWireVersion && !greeting) {
    return make_error(ErrorCode::kMismatch, fmt::format("a data message of wire version {}; "
                                                        "this side has {}",
                                                        version, kWireVersion));
  }
  // Items are counted where they are read. The shard refuses a peer that opens too many tables.
  if (header.has_items() || header.has_open_tables()) return ok();
  return check_limits(header);
}

/// The body of a message that consists of its header only. Errors: invalid: it has none.
Result<void> take_body(pb::DataHeader& header, DataMessage& message) {
  switch (header.body_case()) {
    case pb::DataHeader::kHello:
      message.body = std::move(*header.mutable_hello());
      return ok();
    case pb::DataHeader::kHelloReply:
      message.body = std::move(*header.mutable_hello_reply());
      return ok();
    case pb::DataHeader::kOpenTables:
      message.body = std::move(*header.mutable_open_tables());
      return ok();
    case pb::DataHeader::kOpenTablesReply:
      message.body = std::move(*header.mutable_open_tables_reply());
      return ok();
    case pb::DataHeader::kImagesReply:
      message.body = std::move(*header.mutable_images_reply());
      return ok();
    case pb::DataHeader::kDescribe:
      message.body = *header.mutable_describe();
      return ok();
    case pb::DataHeader::kDescription:
      message.body = std::move(*header.mutable_description());
      return ok();
    case pb::DataHeader::kConfirm:
      message.body = *header.mutable_confirm();
      return ok();
    case pb::DataHeader::kConfirmReply:
      message.body = *header.mutable_confirm_reply();
      return ok();
    default:
      return invalid("a data header without a body");
  }
}

}  // namespace

Result<DataMessage> decode_data(const Message& frames, SharedLink* link) {
  if (frames.frames.empty()) return invalid("a data message without frames");
  HeaderMemory memory;
  pb::DataHeader& header = memory.header();
  TAUT_TRY(read_header(frames.frames[0], header));
  DataMessage message = addressed(header);
  if (header.has_items()) {
    TAUT_TRY(message.body, from_wire(*header.mutable_items(), frames, link));
    return message;
  }
  if (header.has_images()) {
    TAUT_TRY(message.body, from_wire(*header.mutable_images(), frames));
    return message;
  }
  if (header.has_part_request() || header.has_part_reply()) return part_message(header, frames);
  if (frames.frames.size() != 1) return invalid("payload frames without items");
  TAUT_TRY(take_body(header, message));
  return message;
}

}  // namespace taut
