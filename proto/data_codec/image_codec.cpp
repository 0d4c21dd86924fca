#include "proto/data_codec/image_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "proto/data_codec/item_codec.hpp"
#include "proto/data_codec/logged_update_codec.hpp"

namespace taut {
namespace {

constexpr std::uint32_t kMaxStates = 16;
constexpr int kMaxImageMembers = 4096;

/// Whether an image has a frame of row numbers before the others: if it has rows, or some were
/// dropped.
bool has_keys(const pb::SliceImages::Image& image) {
  return image.rows() > 0 || image.dropped() > 0;
}

std::int64_t clock_at(std::span<const std::byte> keys, std::size_t index) {
  std::int64_t clock = 0;
  std::memcpy(&clock, keys.data() + keys.size() / 2 + index * sizeof(clock), sizeof(clock));
  return clock;
}

/// Errors    invalid: keys that do not ascend, or values that are not those of their rows
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
  std::uint64_t lowest = 0;  // allowed for the next number
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

/// Lends an image's values and states, all or none. Those of rows exist only in transit and are
/// never lent.
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

/// Whether a batch names places although nothing is lent.
bool lends_from_nowhere(const DataImages& batch) {
  return !batch.lent_to &&
         (std::ranges::any_of(batch.images, [](const auto& one) { return !one.lent.empty(); }) ||
          std::ranges::any_of(batch.logged, [](const auto& one) { return one.lent.has_value(); }));
}

/// next  the first of its payloads; afterwards the one after them
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

}  // namespace

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
  add_logged(batch, wire, frames, link);
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
  if (lends_from_nowhere(batch)) return invalid("images refer to memory that was not shared");
  if (next != frames.frames.size()) {
    return invalid(fmt::format("{} payload frames, but the images and updates name {}",
                               frames.frames.size() - 1, next - 1));
  }
  return batch;
}

}  // namespace taut
