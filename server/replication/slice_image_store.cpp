#include "server/replication/slice_image_store.hpp"

#include <algorithm>
#include <cstring>

#include "common/check.hpp"
#include "proto/config/job_state.hpp"
#include "server/tables/bucket_numbers.hpp"
#include "server/tables/row_allowance.hpp"

namespace taut::server {
namespace {

// The most updates of one slice that are in no image yet: a primary has fewer in flight, and sends
// an image before it reaches this number of others.
constexpr std::size_t kMaxLogged = 16384;

/// Copies a frame, and releases it.
Buffer take_copy(Frame& frame, BufferPool& pool) {
  Buffer copy = pool.acquire(frame.size());
  std::memcpy(copy.data(), frame.bytes().data(), frame.size());
  frame = Frame();
  return copy;
}

/// How many arrays are stored with the values of a table's slices.
std::size_t states_of(const TableSpec& table, const JobView& view) {
  if (table.kind != TableKind::kTrained) return 0;
  return static_cast<std::size_t>(view.rule.state_count()) + view.policies.keeps().states;
}

/// Whether an image contains an update, or was made when that no longer counted. V has passed
/// everything that was pushed by a member that the image does not name.
bool is_in(const ImageItem& image, WorkerId worker, Clock clock) {
  const auto done = image.done.find(worker);
  return clock < (done == image.done.end() ? image.version : done->second);
}

}  // namespace

bool SliceImageStore::is_complete() const {
  if (tables_.empty()) return false;
  const auto whole = static_cast<std::size_t>(
      std::ranges::count_if(newest_, [](const auto& entry) { return entry.second.has_image; }));
  return whole + former_.size() == slices_;
}

void SliceImageStore::follow(const ShardPlace& place) {
  if (place.term == term_ && place.copy == copy_) return;
  term_ = place.term;
  copy_ = place.copy;
  for (auto entry = newest_.begin(); entry != newest_.end();) {
    const auto now = entry++;
    const std::size_t index = now->first;
    if (now->second.has_image) {
      former_.insert(newest_.extract(now));
    } else if (former_.contains(index)) {
      // Both logs still continue the former image.
      std::vector<LoggedUpdate> both = logged_of(index);
      auto& logged = former_.at(index).logged;
      logged.clear();
      for (LoggedUpdate& one : both) logged.emplace(logged.size(), std::move(one));
    }
  }
  newest_.clear();
  logged_bytes_.clear();
  for (const auto& [index, kept] : former_) count_logged(kept, true);
}

/// Counts an update that is kept from now on, or no longer.
void SliceImageStore::count_logged(const LoggedUpdate& one, bool is_kept) {
  if (!one.update.by_rows) return;
  const std::uint64_t bytes = RowAllowance::bytes_of(one.update);
  if (is_kept) {
    logged_bytes_[one.table] += bytes;
  } else {
    logged_bytes_[one.table] -= bytes;
  }
}

/// Overload for all updates of a slice.
void SliceImageStore::count_logged(const Kept& kept, bool is_kept) {
  for (const auto& [number, one] : kept.logged) count_logged(one, is_kept);
}

/// Whether the reserved bytes leave room for an update. Without an image from this primary it is
/// accepted: that image may be made only once the backups have what the slice holds.
bool SliceImageStore::has_room(const LoggedUpdate& one, const Kept& kept) const {
  if (kept.logged.size() >= kMaxLogged) return false;
  const auto limit = log_limits_.find(one.table);
  if (limit == log_limits_.end() || !kept.has_image) return true;
  const auto logged = logged_bytes_.find(one.table);
  const std::uint64_t bytes = logged == logged_bytes_.end() ? 0 : logged->second;
  return bytes + RowAllowance::bytes_of(one.update) <= limit->second;
}

Result<void> SliceImageStore::open(const std::vector<pb::TableSpec>& tables, const JobView& view,
                                   std::uint64_t slice_elements,
                                   const std::shared_ptr<TableMemory>& memory) {
  std::vector<TableSpec> specs;
  for (const pb::TableSpec& wire : tables) {
    TAUT_TRY(TableSpec table, from_wire(wire));
    table.id = TableId(static_cast<std::uint32_t>(specs.size()));
    specs.push_back(std::move(table));
  }
  if (memory) {
    TAUT_TRY(memory->check(even_needs(specs, view, HostRole::kBackup)));
  }
  SliceLayout layout(specs, view.shards, slice_elements);
  if (memory) {
    TAUT_TRY(memory_, memory->take(needs_at(shard_, layout, specs, view, HostRole::kBackup)));
  }
  slices_ = static_cast<std::size_t>(std::ranges::count(layout.slices(), shard_, &Slice::shard));
  layout_ = std::move(layout);
  tables_ = std::move(specs);
  for (const TableSpec& table : tables_) {
    if (!table.rows) continue;
    const auto buckets = std::ranges::count(layout_.slices_of(table.id), shard_, &Slice::shard);
    log_limits_[table.id] = RowAllowance::max_logged_bytes(
        table, static_cast<std::uint64_t>(buckets), view.max_members());
  }
  return ok();
}

std::optional<pb::SliceImagesReply> SliceImageStore::take(
    const DataImages& images, const JobView& view, std::uint64_t slice_elements,
    const std::shared_ptr<TableMemory>& memory) {
  if (!expects(images)) return std::nullopt;
  if (tables_.empty()) {
    if (images.tables.empty()) return std::nullopt;
    if (auto opened = open(images.tables, view, slice_elements, memory); !opened) {
      problem_ = opened.error().message;
      return std::nullopt;
    }
    problem_.clear();
  }
  pb::SliceImagesReply reply;
  reply.set_shard(shard_.value());
  reply.set_term(term_);
  reply.set_copy(copy_);
  for (const ImageItem& image : images.images) {
    const Slice* slice = layout_.find(image.table, image.slice);
    const auto is_clock = [](Clock clock) { return clock >= Clock() && clock < Clock::never(); };
    const bool is_sound = is_clock(image.version) && image.applications >= 0 &&
                          std::ranges::all_of(image.done, [&](const auto& member) {
                            return is_clock(member.second);
                          });
    if (!is_sound) continue;
    if (slice == nullptr || slice->shard != shard_) continue;
    const TableSpec& table = tables_[image.table.value()];
    if (table.rows) {
      keep_rows(image, *slice, states_of(table, view), reply);
      continue;
    }
    if (image.values.size() != slice->count * sizeof(float) ||
        image.states.size() != states_of(table, view) || !image.keys.empty()) {
      continue;
    }
    const std::size_t index = layout_.index_of(image.table, image.slice);
    if (image.sequence >= newest_[index].image.sequence) set_image(index, image);
    note_kept(image, newest_[index].image.sequence, reply);
  }
  for (const LoggedUpdate& one : images.logged) keep_logged(one, view, reply);
  return reply;
}

void SliceImageStore::note_kept(const ImageItem& image, std::uint64_t sequence,
                                pb::SliceImagesReply& reply) {
  pb::SliceImagesReply::Kept& kept = *reply.add_kept();
  kept.set_table(image.table.value());
  kept.set_slice(image.slice.value());
  kept.set_sequence(sequence);
}

/// Stores a part of a bucket's image. If the image that it continues is missing, the reply makes
/// the primary send all rows.
void SliceImageStore::keep_rows(const ImageItem& image, const Slice& place, std::size_t states,
                                pb::SliceImagesReply& reply) {
  const std::size_t index = layout_.index_of(image.table, image.slice);
  const TableSpec& table = tables_[image.table.value()];
  Kept& kept = newest_[index];
  if (!kept.rows) kept.rows.emplace(table, place.slice.value(), states);
  RowCopy& copy = *kept.rows;
  if (image.sequence > copy.sequence()) {
    switch (copy.take(image)) {
      case RowCopy::Taken::kPart:
        return;
      case RowCopy::Taken::kLacking:
        if (copy.sequence() == 0) kept.has_image = false;
        note_kept(image, 0, reply);
        return;
      case RowCopy::Taken::kWhole:
        break;
    }
    set_image(index, image);
    // The rows are in the copy.
    kept.image.keys = kept.image.values = Frame();
    kept.image.states.clear();
  }
  note_kept(image, copy.sequence(), reply);
}

/// Whether an update may be one that a shard would accept for a slice.
bool SliceImageStore::is_sound(const LoggedUpdate& one, const Slice& place,
                               const JobView& view) const {
  const TableSpec& table = tables_[one.table.value()];
  const Update& update = one.update;
  if (one.count != place.count || update.weight < view.min_weight ||
      update.weight > view.max_weight || update.by_rows != table.rows.has_value() ||
      !view.compression.may_push(table, update.clock, update.encoding)) {
    return false;
  }
  return !update.by_rows ||
         misfit_of_numbers(table, place.slice.value(), update.gradient.bytes(), update.rows, true)
             .empty();
}

void SliceImageStore::keep_logged(const LoggedUpdate& one, const JobView& view,
                                  pb::SliceImagesReply& reply) {
  const Slice* slice = layout_.find(one.table, one.slice);
  if (slice == nullptr || slice->shard != shard_ || one.lent) return;
  if (!is_sound(one, *slice, view)) return;
  const std::size_t index = layout_.index_of(one.table, one.slice);
  Kept& newest = newest_[index];
  // If the image contains it, this is a late copy.
  if (!newest.has_image || !is_in(newest.image, one.worker, one.update.clock)) {
    // Without room, it waits for an image that makes some.
    const auto known = newest.logged.find(one.number);
    if (known != newest.logged.end()) {
      count_logged(known->second, false);
    } else if (!has_room(one, newest)) {
      return;
    }
    newest.logged.insert_or_assign(one.number, one);
    count_logged(one, true);
  }
  pb::SliceImagesReply::Logged& kept = *reply.add_logged();
  kept.set_table(one.table.value());
  kept.set_slice(one.slice.value());
  kept.set_worker(one.worker.value());
  kept.set_clock(one.update.clock.value());
}

void SliceImageStore::set_image(std::size_t index, const ImageItem& image) {
  Kept& kept = newest_[index];
  count_logged(kept, false);
  if (const auto former = former_.find(index); former != former_.end()) {
    count_logged(former->second, false);
  }
  kept.image = image;
  kept.has_image = true;
  std::erase_if(kept.logged, [&](const auto& entry) {
    return is_in(image, entry.second.worker, entry.second.update.clock);
  });
  former_.erase(index);
  count_logged(kept, true);
}

SliceImageStore::Kept* SliceImageStore::find_image(std::size_t index) {
  for (auto* images : {&newest_, &former_}) {
    const auto found = images->find(index);
    if (found != images->end() && found->second.has_image) return &found->second;
  }
  return nullptr;
}

/// The updates that a slice's image does not contain. A former image is continued by those logged
/// before the primary or the backups changed, and by those logged since: each update once, those of
/// a worker by clock.
std::vector<LoggedUpdate> SliceImageStore::logged_of(std::size_t index) const {
  std::vector<LoggedUpdate> logged;
  const auto add = [&](const std::map<std::size_t, Kept>& images) {
    const auto found = images.find(index);
    if (found == images.end()) return;
    for (const auto& entry : found->second.logged) {
      const LoggedUpdate& one = entry.second;
      const bool is_here = std::ranges::any_of(logged, [&](const LoggedUpdate& other) {
        return other.worker == one.worker && other.update.clock == one.update.clock;
      });
      if (!is_here) logged.push_back(one);
    }
  };
  const bool has_former = former_.contains(index);
  if (has_former) add(former_);
  add(newest_);
  if (has_former) {
    std::ranges::stable_sort(logged, {}, [](const LoggedUpdate& one) { return one.update.clock; });
  }
  return logged;
}

SliceImage SliceImageStore::take_slice(const Slice& place, BufferPool& values, BufferPool& states) {
  const std::size_t index = layout_.index_of(place.table, place.slice);
  Kept* kept = find_image(index);
  TAUT_CHECK(kept != nullptr, "a slice that is taken over has an image");
  SliceImage slice;
  slice.place = place;
  slice.version = kept->image.version;
  slice.applications = kept->image.applications;
  slice.done = kept->image.done;
  slice.is_replica = true;
  slice.logged = logged_of(index);
  if (kept->rows) {
    slice.rows = kept->rows->image();
  } else {
    slice.values = take_copy(kept->image.values, values);
    for (Frame& state : kept->image.states) slice.states.push_back(take_copy(state, states));
  }
  newest_.erase(index);
  former_.erase(index);
  return slice;
}

}  // namespace taut::server
