#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "common/ssp/row_buckets.hpp"
#include "proto/data_message.hpp"
#include "proto/message_limits.hpp"
#include "proto/wire_version.hpp"

// Payload frames are little-endian, as in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

constexpr std::size_t kMaxHeaderBytes = 16UL << 20U;
constexpr std::size_t kPackBelow = 16UL << 10U;
// Maximum elements of a payload: far above a slice's; products cannot overflow.
constexpr std::uint64_t kMaxCount = 1ULL << 40U;
constexpr std::uint32_t kMaxEvery = 1U << 18U;
constexpr std::uint32_t kMaxColumns = 1U << 18U;
constexpr std::size_t kMaxPartBytes = 16UL << 20U;

bool carries_payload(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ ||
         kind == pb::DataItem::VALUE || kind == pb::DataItem::SNAPSHOT_VALUE ||
         kind == pb::DataItem::FOLLOW_VALUE;
}

bool is_push(DataItem::Kind kind) {
  return kind == pb::DataItem::PUSH || kind == pb::DataItem::PUSH_READ;
}

bool names_rows(DataItem::Kind kind) {
  return kind == pb::DataItem::READ || kind == pb::DataItem::SNAPSHOT;
}

/// Requests of rows have a payload too: their numbers.
bool carries_payload(DataItem::Kind kind, bool by_rows) {
  return carries_payload(kind) || (by_rows && names_rows(kind));
}

/// Bytes of a payload in layout ROWS. REQUIRES: a kind that check_rows() lets pass.
std::uint64_t row_bytes(DataItem::Kind kind, std::uint64_t rows, std::uint64_t width) {
  if (names_rows(kind)) return rows * sizeof(std::uint64_t);
  return rows * (is_push(kind) ? pushed_row_bytes(width) : width * sizeof(float));
}

/// Errors    invalid: what no item by rows is
Result<void> check_rows(const pb::DataItem& wire) {
  if (wire.layout() == pb::DataItem::DENSE) {
    if (wire.rows() == 0) return ok();
    return invalid(fmt::format("{} rows in a payload that is not by rows", wire.rows()));
  }
  const auto kind = wire.kind();
  if (kind == pb::DataItem::PUSH_READ || kind == pb::DataItem::FOLLOW_VALUE ||
      !carries_payload(kind, true)) {
    return invalid(fmt::format("a data item of kind {} has the layout ROWS, which it must not have",
                               pb::DataItem::Kind_Name(kind)));
  }
  if (wire.rows() > kMaxRowsOfItem || wire.count() < 1 || wire.count() > kMaxRowWidth ||
      wire.rows() * wire.count() > kMaxRowValues) {
    return invalid(fmt::format(
        "{} rows of {} values; at most {} rows, {} values of each and {} of all are allowed",
        wire.rows(), wire.count(), kMaxRowsOfItem, kMaxRowWidth, kMaxRowValues));
  }
  return ok();
}

/// Codecs by their element types.
constexpr std::array kCodecOf{math::Codec::kFloat32, math::Codec::kFloat16, math::Codec::kBfloat16,
                              math::Codec::kInt8,    math::Codec::kOneBit,  math::Codec::kTopK,
                              math::Codec::kRandomK, math::Codec::kLowRank};
static_assert(kCodecOf.size() == math::kCodecs &&
              kCodecOf.size() == std::size_t{pb::DataItem::ElementType_MAX} + 1);

pb::DataItem::ElementType element_type_of(const math::Encoding& encoding) {
  const auto* found = std::ranges::find(kCodecOf, encoding.codec);
  return static_cast<pb::DataItem::ElementType>(found - kCodecOf.begin());
}

Result<void> check_factors(const math::Encoding& encoding) {
  if (encoding.codec != math::Codec::kLowRank) {
    if (encoding.rank == 0 && encoding.columns == 0) return ok();
    return invalid(fmt::format("{} has a rank of {} and {} columns; it must have neither",
                               math::to_string(encoding.codec), encoding.rank, encoding.columns));
  }
  if (encoding.rank < 1 || encoding.rank > math::kMaxRank) {
    return invalid(fmt::format("the rank of a matrix must be from 1 to {}, is {}", math::kMaxRank,
                               encoding.rank));
  }
  if (encoding.columns < 1 || encoding.columns > kMaxColumns) {
    return invalid(fmt::format("the columns of a matrix must be from 1 to {}, are {}", kMaxColumns,
                               encoding.columns));
  }
  return ok();
}

/// Errors    invalid: an encoding that is unknown, or that such an item does not have
Result<math::Encoding> encoding_of(const pb::DataItem& wire) {
  const auto type = static_cast<std::size_t>(wire.element_type());
  const bool is_known =
      wire.layout() == pb::DataItem::DENSE || (wire.layout() == pb::DataItem::ROWS && type == 0);
  if (type >= kCodecOf.size() || !is_known) {
    return invalid(fmt::format("element type {} in layout {} is unknown",
                               static_cast<int>(wire.element_type()),
                               static_cast<int>(wire.layout())));
  }
  const math::Encoding encoding{kCodecOf[type], wire.every(), wire.rank(), wire.columns()};
  TAUT_TRY(check_factors(encoding));
  const auto limits = encoding.is_sparse() ? std::pair{2U, kMaxEvery} : std::pair{0U, 0U};
  if (encoding.every < limits.first || encoding.every > limits.second) {
    return invalid(fmt::format("one of {} values is sent as {}; it must be from {} to {}",
                               encoding.every, math::to_string(encoding.codec), limits.first,
                               limits.second));
  }
  const bool may_be =
      is_push(wire.kind()) || (wire.kind() == pb::DataItem::VALUE && !encoding.has_residual());
  if (encoding.codec != math::Codec::kFloat32 && !may_be) {
    return invalid(fmt::format("a data item of kind {} is encoded as {}, which it must not be",
                               pb::DataItem::Kind_Name(wire.kind()),
                               math::to_string(encoding.codec)));
  }
  return encoding;
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
  wire.set_stable(item.stable.value());
  wire.set_payload(carries_payload(item.kind, item.by_rows));
  if (item.by_rows) {
    wire.set_layout(pb::DataItem::ROWS);
    wire.set_rows(item.rows);
  }
  wire.set_element_type(element_type_of(item.encoding));
  wire.set_every(item.encoding.every);
  wire.set_rank(item.encoding.rank);
  wire.set_columns(item.encoding.columns);
  wire.set_refusal(item.refusal);
  wire.set_gradient_norm(item.gradient_norm);
  if (item.weight != 1) wire.set_weight(item.weight);
  wire.set_waits_for(item.waits_for.value());
  wire.set_follower(item.follower.value());
  if (!item.reason.empty()) wire.set_reason(item.reason);
}

Result<DataItem> from_wire(pb::DataItem& wire) {
  if (!pb::DataItem::Kind_IsValid(wire.kind()) || wire.kind() == pb::DataItem::UNKNOWN) {
    return invalid(fmt::format("data item of unknown kind {}", static_cast<int>(wire.kind())));
  }
  if ((wire.packed() || wire.has_place()) && !wire.payload()) {
    return invalid("a data item without a payload has a place for it");
  }
  if (wire.packed() && wire.has_place()) {
    return invalid("a data item whose payload is both packed and in shared memory");
  }
  const bool by_rows = wire.layout() == pb::DataItem::ROWS;
  if (wire.payload() != carries_payload(wire.kind(), by_rows)) {
    return invalid(fmt::format("a data item of kind {} {} a payload",
                               pb::DataItem::Kind_Name(wire.kind()),
                               wire.payload() ? "has" : "lacks"));
  }
  DataItem item;
  TAUT_TRY(item.encoding, encoding_of(wire));
  TAUT_TRY(check_rows(wire));
  item.by_rows = by_rows;
  item.rows = wire.rows();
  item.kind = wire.kind();
  item.table = TableId(wire.table());
  item.slice = SliceId(wire.slice());
  item.offset = wire.offset();
  item.count = wire.count();
  item.clock = Clock(wire.clock());
  item.version = Clock(wire.version());
  item.done = Clock(wire.done());
  item.stable = Clock(wire.stable());
  item.refusal = wire.refusal();
  item.reason = std::move(*wire.mutable_reason());
  item.waits_for = WorkerId(wire.waits_for());
  item.follower = FollowerId(wire.follower());
  item.gradient_norm = wire.gradient_norm();
  if (!(item.gradient_norm >= 0)) {
    return invalid(fmt::format("gradient norm must be at least 0, is {}", item.gradient_norm));
  }
  if (wire.weight() != 0) item.weight = wire.weight();
  if (!(item.weight > 0 && std::isfinite(item.weight))) {
    return invalid(fmt::format("weight must be finite and greater than 0, is {}", item.weight));
  }
  if (item.clock < Clock(0) || item.clock == Clock::never()) {
    return invalid(fmt::format("clock {} is out of range", item.clock.value()));
  }
  return item;
}

void to_wire(const SharedPlace& place, pb::SharedPlace& wire) {
  wire.set_offset(place.offset);
  wire.set_loan(place.loan);
  wire.set_generation(place.generation);
}

SharedPlace place_of(const pb::SharedPlace& wire) {
  return {wire.offset(), wire.loan(), wire.generation()};
}

/// Distributes a message's payload bytes to its items, in their order.
class PayloadReader {
 public:
  PayloadReader(const pb::DataItems& wire, const Message& frames, SharedLink* link)
      : frames_(frames), link_(link) {
    const auto& items = wire.items();
    has_pack_ = std::any_of(items.begin(), items.end(),
                            [](const pb::DataItem& item) { return item.packed(); });
    next_frame_ = has_pack_ ? 2 : 1;
  }

  Result<Frame> take(const pb::DataItem& item, const math::Encoding& encoding) {
    const bool is_possible = item.count() <= kMaxCount;
    const std::uint64_t size = !is_possible ? std::numeric_limits<std::uint64_t>::max()
                               : item.layout() == pb::DataItem::ROWS
                                   ? row_bytes(item.kind(), item.rows(), item.count())
                                   : math::encoded_bytes(encoding, item.count());
    if (item.has_place()) return is_possible ? borrowed(item, size) : lacks(item, 0);
    return item.packed() ? part(item, size) : whole(item, size);
  }

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
  Result<Frame> whole(const pb::DataItem& item, std::uint64_t size) {
    if (next_frame_ >= frames_.frames.size()) return lacks(item, 0);
    const Frame& frame = frames_.frames[next_frame_++];
    if (size != frame.size()) return lacks(item, frame.size());
    return frame;
  }
  Result<Frame> part(const pb::DataItem& item, std::uint64_t size) {
    if (frames_.frames.size() < 2) return lacks(item, 0);
    const std::size_t left = frames_.frames[1].size() - pack_used_;
    if (size > left) return lacks(item, left);
    const std::size_t begin = std::exchange(pack_used_, pack_used_ + size);
    return frames_.frames[1].part(begin, size);
  }
  Result<Frame> borrowed(const pb::DataItem& item, std::uint64_t size) {
    return link_->borrow(place_of(item.place()), size);
  }
  static Error lacks(const pb::DataItem& item, std::size_t bytes) {
    return invalid(fmt::format("table {} slice {}: {} elements announced as {}, {} bytes received",
                               item.table(), item.slice(), item.count(),
                               pb::DataItem::ElementType_Name(item.element_type()), bytes));
  }

  const Message& frames_;
  SharedLink* link_;
  bool has_pack_ = false;
  std::size_t next_frame_ = 1;
  std::size_t pack_used_ = 0;
};

Result<DataItems> from_wire(pb::DataItems& wire, const Message& frames, SharedLink* link) {
  if (static_cast<std::size_t>(wire.items_size()) > DataItems::kMaxItems) {
    return invalid(fmt::format("{} items in one message; the limit is {}", wire.items_size(),
                               DataItems::kMaxItems));
  }
  DataItems batch;
  batch.items.reserve(static_cast<std::size_t>(wire.items_size()));
  PayloadReader payloads(wire, frames, link);
  for (pb::DataItem& one : *wire.mutable_items()) {
    TAUT_TRY(DataItem item, from_wire(one));
    item.payload_lost = one.has_place() && link == nullptr;
    if (one.payload() && !item.payload_lost) {
      TAUT_TRY(item.payload, payloads.take(one, item.encoding));
      if (!item.by_rows &&
          !math::is_well_formed(item.encoding, item.payload.bytes().data(), item.count)) {
        return invalid(
            fmt::format("table {} slice {}: places of {} that do not ascend, or that "
                        "are not the slice's",
                        one.table(), one.slice(), math::to_string(item.encoding.codec)));
      }
    }
    batch.items.push_back(std::move(item));
  }
  TAUT_TRY(payloads.finish());
  return batch;
}

constexpr std::uint32_t kMaxStates = 16;
constexpr int kMaxImageMembers = 4096;

/// An image of rows, or of which some were dropped, has a frame of their numbers before the others.
bool has_keys(const pb::SliceImages::Image& image) {
  return image.rows() > 0 || image.dropped() > 0;
}

std::int64_t clock_at(std::span<const std::byte> keys, std::size_t index) {
  std::int64_t clock = 0;
  std::memcpy(&clock, keys.data() + keys.size() / 2 + index * sizeof(clock), sizeof(clock));
  return clock;
}

/// Errors    invalid: keys that do not ascend, or other values than those of their rows
Result<void> check_keys(const pb::SliceImages::Image& image, const Frame& keys,
                        const Frame& values) {
  constexpr std::size_t kKeyBytes = sizeof(std::uint64_t) + sizeof(std::int64_t);
  const std::size_t count = keys.size() / kKeyBytes;
  const auto refuse = [&](const char* what) {
    return invalid(
        fmt::format("table {} slice {}: an image with {} for {} rows and {} dropped "
                    "ones",
                    image.table(), image.slice(), what, image.rows(), image.dropped()));
  };
  const bool is_possible = image.rows() <= kMaxCount && image.dropped() <= kMaxCount;
  if (keys.size() % kKeyBytes != 0 || count == 0 || !is_possible ||
      count > image.rows() + image.dropped()) {
    return refuse("too few or too many numbers");
  }
  std::uint64_t rows = 0;
  std::uint64_t lowest = 0;  // that the next number may be
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, keys.bytes().data() + i * sizeof(number), sizeof(number));
    if (number < lowest || number >= std::numeric_limits<std::uint64_t>::max()) {
      return refuse("numbers that do not ascend");
    }
    lowest = number + 1;
    if (clock_at(keys.bytes(), i) < ImageItem::kDropped) return refuse("impossible clocks");
    if (clock_at(keys.bytes(), i) != ImageItem::kDropped) ++rows;
  }
  const std::uint64_t row_bytes = rows == 0 ? 0 : values.size() / rows;
  const bool is_whole = row_bytes * rows == values.size() && row_bytes % sizeof(float) == 0 &&
                        (rows == 0 || row_bytes > 0);
  if (!is_whole) return refuse("other values");
  return ok();
}

/// Lends an image's values and states, all or none. Those of rows are on their way only.
bool lend(const ImageItem& image, SharedLink& link, pb::SliceImages::Image& wire) {
  const std::uint64_t lent = link.lent_so_far();
  const auto lend_one = [&](const Frame& payload) {
    const auto place = link.lend(payload);
    if (place) to_wire(*place, *wire.add_places());
    return place.has_value();
  };
  if (lend_one(image.values) && std::ranges::all_of(image.states, lend_one)) {
    wire.set_bytes(image.values.size());
    return true;
  }
  link.undo_since(lent);
  wire.clear_places();
  return false;
}

void add_images(const DataImages& batch, pb::SliceImages& wire, Message& frames, SharedLink* link) {
  wire.set_shard(batch.shard.value());
  wire.set_term(batch.term);
  wire.set_copy(batch.copy);
  if (batch.memory) *wire.mutable_shared_memory() = *batch.memory;
  if (batch.lent_to) wire.set_lent_to(batch.lent_to->data(), batch.lent_to->size());
  if (!batch.lent_to) link = nullptr;
  for (const pb::TableSpec& table : batch.tables) *wire.add_tables() = table;
  for (const ImageItem& image : batch.images) {
    pb::SliceImages::Image& one = *wire.add_images();
    one.set_table(image.table.value());
    one.set_slice(image.slice.value());
    one.set_sequence(image.sequence);
    one.set_version(image.version.value());
    one.set_applications(image.applications);
    one.set_states(static_cast<std::uint32_t>(image.states.size()));
    for (const auto& [worker, done] : image.done) {
      pb::SliceImages::Member& member = *one.add_members();
      member.set_worker(worker.value());
      member.set_done(done.value());
    }
    one.set_rows(image.rows);
    one.set_dropped(image.dropped);
    one.set_base(image.base);
    if (link != nullptr && !has_keys(one) && lend(image, *link, one)) continue;
    if (has_keys(one)) frames.frames.push_back(image.keys);
    frames.frames.push_back(image.values);
    for (const Frame& state : image.states) frames.frames.push_back(state);
  }
  for (const LoggedUpdate& one : batch.logged) {
    pb::SliceImages::Logged& logged = *wire.add_logged();
    logged.set_worker(one.worker.value());
    logged.set_number(one.number);
    to_wire(push_of(one), *logged.mutable_push());
    const auto place = link == nullptr ? std::nullopt : link->lend(one.update.gradient);
    if (place) {
      to_wire(*place, *logged.mutable_push()->mutable_place());
    } else {
      frames.frames.push_back(one.update.gradient);
    }
  }
}

/// An update without its gradient.
Result<LoggedUpdate> from_wire(pb::SliceImages::Logged& wire) {
  TAUT_TRY(DataItem push, from_wire(*wire.mutable_push()));
  if (push.kind != pb::DataItem::PUSH || wire.push().packed() || push.count > kMaxCount) {
    return invalid(fmt::format("table {} slice {}: {} elements of a logged update",
                               push.table.value(), push.slice.value(), push.count));
  }
  LoggedUpdate logged{
      push.table,      push.slice, WorkerId(wire.worker()), wire.number(), push.count,
      update_of(push), {}};
  if (wire.push().has_place()) logged.lent = place_of(wire.push().place());
  return logged;
}

/// Where an image's values and states are in the sender's memory.
Result<void> take_places(const pb::SliceImages::Image& wire, ImageItem& image) {
  if (static_cast<std::uint32_t>(wire.places_size()) != 1 + wire.states() || has_keys(wire)) {
    return invalid(fmt::format("table {} slice {}: an image of {} states and {} rows in {} places",
                               wire.table(), wire.slice(), wire.states(), wire.rows(),
                               wire.places_size()));
  }
  for (const pb::SharedPlace& place : wire.places()) image.lent.push_back(place_of(place));
  image.lent_bytes = wire.bytes();
  return ok();
}

Result<void> take_offer(const pb::SliceImages& wire, DataImages& batch) {
  if (wire.has_shared_memory()) batch.memory = wire.shared_memory();
  if (wire.lent_to().empty()) return ok();
  SharedMemoryOffer::Probe probe;
  if (!batch.memory || wire.lent_to().size() != probe.size()) {
    return invalid("images that are lent from no memory, or to no known one");
  }
  std::memcpy(probe.data(), wire.lent_to().data(), probe.size());
  batch.lent_to = probe;
  return ok();
}

/// Whether places are named that there cannot be.
bool lends_from_nowhere(const DataImages& batch) {
  return !batch.lent_to &&
         (std::ranges::any_of(batch.images, [](const auto& one) { return !one.lent.empty(); }) ||
          std::ranges::any_of(batch.logged, [](const auto& one) { return one.lent.has_value(); }));
}

/// next  the first of its payloads; afterwards the one behind them
Result<ImageItem> from_wire(const pb::SliceImages::Image& one, const Message& frames,
                            std::size_t& next) {
  if (one.states() > kMaxStates || one.members_size() > kMaxImageMembers) {
    return invalid(fmt::format("an image with {} states and {} members; the limits are {} and {}",
                               one.states(), one.members_size(), kMaxStates, kMaxImageMembers));
  }
  const std::size_t payloads =
      one.places_size() > 0 ? 0 : 1U + one.states() + (has_keys(one) ? 1U : 0U);
  if (frames.frames.size() - next < payloads) {
    return invalid(
        fmt::format("table {} slice {}: an image without its payload", one.table(), one.slice()));
  }
  ImageItem image;
  image.table = TableId(one.table());
  image.slice = SliceId(one.slice());
  image.sequence = one.sequence();
  image.version = Clock(one.version());
  image.applications = one.applications();
  for (const pb::SliceImages::Member& member : one.members()) {
    image.done[WorkerId(member.worker())] = Clock(member.done());
  }
  image.rows = one.rows();
  image.dropped = one.dropped();
  image.base = one.base();
  if (one.places_size() > 0) {
    TAUT_TRY(take_places(one, image));
    return image;
  }
  if (has_keys(one)) {
    image.keys = frames.frames[next++];
    TAUT_TRY(check_keys(one, image.keys, frames.frames[next]));
  }
  image.values = frames.frames[next++];
  for (std::uint32_t i = 0; i < one.states(); ++i) image.states.push_back(frames.frames[next++]);
  for (const Frame& state : image.states) {
    if (state.size() != image.values.size()) {
      return invalid(fmt::format("table {} slice {}: a state of {} bytes for values of {}",
                                 one.table(), one.slice(), state.size(), image.values.size()));
    }
  }
  return image;
}

Result<DataImages> from_wire(pb::SliceImages& wire, const Message& frames) {
  const int count = std::max(wire.images_size(), wire.logged_size());
  if (static_cast<std::size_t>(count) > DataImages::kMaxImages) {
    return invalid(fmt::format("{} images or updates in one message; the limit is {}", count,
                               DataImages::kMaxImages));
  }
  DataImages batch;
  batch.shard = ShardId(wire.shard());
  batch.term = wire.term();
  batch.copy = wire.copy();
  batch.tables.assign(wire.tables().begin(), wire.tables().end());
  TAUT_TRY(take_offer(wire, batch));
  std::size_t next = 1;
  for (const pb::SliceImages::Image& one : wire.images()) {
    TAUT_TRY(ImageItem image, from_wire(one, frames, next));
    batch.images.push_back(std::move(image));
  }
  for (pb::SliceImages::Logged& one : *wire.mutable_logged()) {
    TAUT_TRY(LoggedUpdate logged, from_wire(one));
    if (!logged.lent) {
      if (next >= frames.frames.size()) return invalid("a logged update without its payload");
      TAUT_TRY(set_gradient(frames.frames[next++], logged));
    }
    batch.logged.push_back(std::move(logged));
  }
  if (lends_from_nowhere(batch)) return invalid("images in places of no memory");
  if (next != frames.frames.size()) {
    return invalid(fmt::format("{} payload frames, but the images and updates name {}",
                               frames.frames.size() - 1, next - 1));
  }
  return batch;
}

/// One message's header, in memory that the thread reuses: a batch of a thousand items would cost
/// as many allocations otherwise.
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

/// Adds a batch's items to the header and its payloads where they cost least: as places in shared
/// memory, small ones together in one frame, since a frame costs more than the copy, and the
/// others in separate frames.
void add_items(const DataItems& batch, pb::DataItems& wire, Message& frames, SharedLink* link) {
  const auto pack = std::make_shared<std::vector<std::byte>>();
  std::vector<Frame> large;
  wire.mutable_items()->Reserve(static_cast<int>(batch.items.size()));
  for (const DataItem& item : batch.items) {
    pb::DataItem& one = *wire.add_items();
    to_wire(item, one);
    if (!carries_payload(item.kind, item.by_rows)) continue;
    const auto place = link == nullptr ? std::nullopt : link->lend(item.payload);
    if (place) {
      to_wire(*place, *one.mutable_place());
    } else if (item.payload.size() < kPackBelow) {
      one.set_packed(true);
      const auto bytes = item.payload.bytes();
      pack->insert(pack->end(), bytes.begin(), bytes.end());
    } else {
      large.push_back(item.payload);
    }
  }
  if (std::ranges::any_of(wire.items(), &pb::DataItem::packed)) {
    frames.frames.emplace_back(pack, std::span<const std::byte>(*pack));
  }
  for (Frame& frame : large) frames.frames.push_back(std::move(frame));
}

}  // namespace

namespace {

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

DataItem push_of(const LoggedUpdate& logged) {
  DataItem push;
  push.kind = pb::DataItem::PUSH;
  push.table = logged.table;
  push.slice = logged.slice;
  push.count = logged.count;
  push.clock = logged.update.clock;
  push.gradient_norm = logged.update.norm;
  push.weight = logged.update.weight;
  push.encoding = logged.update.encoding;
  push.by_rows = logged.update.by_rows;
  push.rows = logged.update.rows;
  push.payload = logged.update.gradient;
  return push;
}

std::uint64_t push_bytes(const DataItem& push) {
  return push.by_rows ? row_bytes(push.kind, push.rows, push.count)
                      : math::encoded_bytes(push.encoding, push.count);
}

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

Result<void> set_gradient(const Frame& payload, LoggedUpdate& logged) {
  const DataItem push = push_of(logged);
  const bool is_whole =
      push_bytes(push) == payload.size() &&
      (push.by_rows || math::is_well_formed(push.encoding, payload.bytes().data(), push.count));
  if (!is_whole) {
    return invalid(
        fmt::format("table {} slice {}: {} elements of a logged update announced as {}, "
                    "{} bytes received",
                    push.table.value(), push.slice.value(), push.count,
                    math::to_string(push.encoding.codec), payload.size()));
  }
  logged.update.gradient = payload;
  return ok();
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

/// The body of a message whose header is all of it. Errors: invalid: it has none.
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
