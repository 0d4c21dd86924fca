#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"

// Payload frames are little-endian float32 as they lie in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

constexpr std::size_t kMaxHeaderBytes = 16UL << 20U;
constexpr std::size_t kPackBelow = 16UL << 10U;

bool carries_payload(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ ||
         kind == pb::DataItem::VALUE || kind == pb::DataItem::SNAPSHOT_VALUE;
}

void to_wire(const DataItem& item, pb::DataItem& wire) {
  wire.set_kind(item.kind);
  wire.set_table(item.table.value());
  wire.set_slice(item.slice.value());
  wire.set_offset(item.offset);
  wire.set_count(item.count);
  wire.set_clock(item.clock.value());
  wire.set_version(item.version.value());
  wire.set_done(item.done.value());
  wire.set_payload(carries_payload(item.kind));
  wire.set_refusal(item.refusal);
  wire.set_gradient_norm(item.gradient_norm);
  if (!item.reason.empty()) wire.set_reason(item.reason);
}

Result<DataItem> from_wire(pb::DataItem& wire) {
  if (!pb::DataItem::Kind_IsValid(wire.kind()) || wire.kind() == pb::DataItem::UNKNOWN) {
    return invalid(fmt::format("data item of unknown kind {}", static_cast<int>(wire.kind())));
  }
  if (wire.element_type() != pb::DataItem::FLOAT32 || wire.layout() != pb::DataItem::DENSE) {
    return invalid(fmt::format("element type {} in layout {}: only dense float32 is known",
                               static_cast<int>(wire.element_type()),
                               static_cast<int>(wire.layout())));
  }
  if (wire.packed() && !wire.payload()) return invalid("a packed data item without a payload");
  if (wire.payload() != carries_payload(wire.kind())) {
    return invalid(fmt::format("a data item of kind {} {} a payload",
                               pb::DataItem::Kind_Name(wire.kind()),
                               wire.payload() ? "has" : "lacks"));
  }
  DataItem item;
  item.kind = wire.kind();
  item.table = TableId(wire.table());
  item.slice = SliceId(wire.slice());
  item.offset = wire.offset();
  item.count = wire.count();
  item.clock = Clock(wire.clock());
  item.version = Clock(wire.version());
  item.done = Clock(wire.done());
  item.refusal = wire.refusal();
  item.reason = std::move(*wire.mutable_reason());
  item.gradient_norm = wire.gradient_norm();
  if (!(item.gradient_norm >= 0)) {
    return invalid(fmt::format("gradient norm {} is no norm", item.gradient_norm));
  }
  if (item.clock < Clock(0) || item.clock == Clock::never()) {
    return invalid(fmt::format("clock {} is out of range", item.clock.value()));
  }
  return item;
}

/// Hands a message's payload bytes out to its items, in their order.
class PayloadReader {
 public:
  PayloadReader(const pb::DataItems& wire, const Message& frames) : frames_(frames) {
    const auto& items = wire.items();
    has_pack_ = std::any_of(items.begin(), items.end(),
                            [](const pb::DataItem& item) { return item.packed(); });
    next_frame_ = has_pack_ ? 2 : 1;
  }

  Result<Frame> take(const pb::DataItem& item) { return item.packed() ? part(item) : whole(item); }

  /// Errors: payload bytes that belong to no item.
  [[nodiscard]] Result<void> finish() const {
    if (next_frame_ != frames_.frames.size()) {
      return invalid(fmt::format("{} payload frames, but the items name {}",
                                 frames_.frames.size() - 1, next_frame_ - 1));
    }
    if (has_pack_ && pack_used_ != frames_.frames[1].size()) {
      return invalid(fmt::format("{} packed bytes, but the items name {}", frames_.frames[1].size(),
                                 pack_used_));
    }
    return ok();
  }

 private:
  Result<Frame> whole(const pb::DataItem& item) {
    if (next_frame_ >= frames_.frames.size()) return lacks(item, 0);
    const Frame& frame = frames_.frames[next_frame_++];
    if (item.count() > frame.size() || item.count() * sizeof(float) != frame.size()) {
      return lacks(item, frame.size());
    }
    return frame;
  }
  Result<Frame> part(const pb::DataItem& item) {
    if (frames_.frames.size() < 2) return lacks(item, 0);
    const std::size_t left = frames_.frames[1].size() - pack_used_;
    if (item.count() > left || item.count() * sizeof(float) > left) return lacks(item, left);
    const std::size_t size = item.count() * sizeof(float);
    const std::size_t begin = std::exchange(pack_used_, pack_used_ + size);
    return frames_.frames[1].part(begin, size);
  }
  static Error lacks(const pb::DataItem& item, std::size_t bytes) {
    return invalid(fmt::format("table {} slice {}: {} elements announced, {} bytes came",
                               item.table(), item.slice(), item.count(), bytes));
  }

  const Message& frames_;
  bool has_pack_ = false;
  std::size_t next_frame_ = 1;
  std::size_t pack_used_ = 0;
};

Result<DataItems> from_wire(pb::DataItems& wire, const Message& frames) {
  if (static_cast<std::size_t>(wire.items_size()) > DataItems::kMaxItems) {
    return invalid(fmt::format("{} items in one message; the limit is {}", wire.items_size(),
                               DataItems::kMaxItems));
  }
  DataItems batch;
  batch.items.reserve(static_cast<std::size_t>(wire.items_size()));
  PayloadReader payloads(wire, frames);
  for (pb::DataItem& one : *wire.mutable_items()) {
    TAUT_TRY(DataItem item, from_wire(one));
    if (one.payload()) {
      TAUT_TRY(item.payload, payloads.take(one));
    }
    batch.items.push_back(std::move(item));
  }
  TAUT_TRY(payloads.finish());
  return batch;
}

/// Puts a batch's items into the header and its payloads into frames: small ones share a frame, for
/// a frame of its own costs more than the copy.
void add_items(const DataItems& batch, pb::DataItems& wire, Message& frames) {
  const auto is_small = [](const DataItem& item) {
    return carries_payload(item.kind) && item.payload.size() < kPackBelow;
  };
  const bool packs = std::ranges::count_if(batch.items, is_small) > 1;
  std::vector<std::byte> pack;
  if (packs) frames.frames.emplace_back();
  for (const DataItem& item : batch.items) {
    pb::DataItem& one = *wire.add_items();
    to_wire(item, one);
    if (packs && is_small(item)) {
      one.set_packed(true);
      const auto bytes = item.payload.bytes();
      pack.insert(pack.end(), bytes.begin(), bytes.end());
    } else if (carries_payload(item.kind)) {
      frames.frames.push_back(item.payload);
    }
  }
  if (!packs) return;
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(pack));
  const std::span<const std::byte> view(*owner);
  frames.frames[1] = Frame(std::move(owner), view);
}

}  // namespace

Message encode(const DataMessage& message) {
  pb::DataHeader header;
  header.set_job(message.job.value());
  header.set_worker(message.worker.value());
  header.set_incarnation(message.incarnation.value());
  Message frames;
  frames.frames.emplace_back();
  struct Body {
    pb::DataHeader& header;
    Message& frames;
    void operator()(const DataItems& batch) const {
      add_items(batch, *header.mutable_items(), frames);
    }
    void operator()(const pb::DataHello& body) const { *header.mutable_hello() = body; }
    void operator()(const pb::DataHelloReply& body) const { *header.mutable_hello_reply() = body; }
    void operator()(const pb::OpenTables& body) const { *header.mutable_open_tables() = body; }
    void operator()(const pb::OpenTablesReply& body) const {
      *header.mutable_open_tables_reply() = body;
    }
  };
  std::visit(Body{header, frames}, message.body);
  std::string bytes;
  append_prefix(Plane::kData, bytes);
  header.AppendToString(&bytes);
  frames.frames[0] = Frame::copy_of(bytes);
  return frames;
}

Result<DataMessage> decode_data(const Message& frames) {
  if (frames.frames.empty()) return invalid("a data message without frames");
  const Frame& first = frames.frames[0];
  TAUT_TRY(const std::uint16_t version, read_prefix(Plane::kData, first));
  if (first.size() > kMaxHeaderBytes) {
    return invalid(
        fmt::format("a data header of {} bytes; the limit is {}", first.size(), kMaxHeaderBytes));
  }
  pb::DataHeader header;
  if (!header.ParseFromArray(first.bytes().data() + kPrefixBytes,
                             static_cast<int>(first.size() - kPrefixBytes))) {
    return invalid(fmt::format("a data header of {} bytes that does not parse", first.size()));
  }
  // Hello and its reply are read from any version, so that both sides can be told.
  const bool greeting = header.has_hello() || header.has_hello_reply();
  if (version != kWireVersion && !greeting) {
    return make_error(ErrorCode::kMismatch, fmt::format("a data message of wire version {}; "
                                                        "this side speaks {}",
                                                        version, kWireVersion));
  }
  DataMessage message;
  message.job = JobId(header.job());
  message.worker = WorkerId(header.worker());
  message.incarnation = Incarnation(header.incarnation());
  if (header.has_items()) {
    TAUT_TRY(message.body, from_wire(*header.mutable_items(), frames));
    return message;
  }
  if (frames.frames.size() != 1) return invalid("payload frames without items");
  switch (header.body_case()) {
    case pb::DataHeader::kHello:
      message.body = std::move(*header.mutable_hello());
      return message;
    case pb::DataHeader::kHelloReply:
      message.body = std::move(*header.mutable_hello_reply());
      return message;
    case pb::DataHeader::kOpenTables:
      message.body = std::move(*header.mutable_open_tables());
      return message;
    case pb::DataHeader::kOpenTablesReply:
      message.body = std::move(*header.mutable_open_tables_reply());
      return message;
    default:
      return invalid("a data header without a body");
  }
}

}  // namespace taut
