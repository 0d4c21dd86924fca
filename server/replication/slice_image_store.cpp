#include "server/replication/slice_image_store.hpp"

#include <algorithm>
#include <cstring>

#include "proto/config/job_state.hpp"
#include "server/tables/bucket_numbers.hpp"

namespace taut::server {
namespace {

// Updates of one slice that are in no image yet; a primary has fewer on their way, and sends an
// image before there are so many others.
constexpr std::size_t kMaxLogged = 16384;

Buffer copy_of(const Frame& frame, BufferPool& pool) {
  Buffer copy = pool.acquire(frame.size());
  std::memcpy(copy.data(), frame.bytes().data(), frame.size());
  return copy;
}

/// How many arrays are stored with the values of a table's slices.
std::size_t states_of(const TableSpec& table, const JobView& view) {
  if (table.kind != TableKind::kTrained) return 0;
  return static_cast<std::size_t>(view.rule.state_count()) + view.policies.keeps().states;
}

/// Whether an image holds an update, or was made when that no longer counted. Of a member that it
/// does not name, V has passed all that it pushed before it left.
bool is_in(const ImageItem& image, WorkerId worker, Clock clock) {
  const auto done = image.done.find(worker);
  return clock < (done == image.done.end() ? image.version : done->second);
}

}  // namespace

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
    TAUT_TRY(memory->check(even_needs(specs, view)));
  }
  SliceLayout layout(specs, view.shards, slice_elements);
  if (memory) {
    TAUT_TRY(memory_, memory->take(needs_at(place_.shard, layout, specs, view)));
  }
  slices_ =
      static_cast<std::size_t>(std::ranges::count(layout.slices(), place_.shard, &Slice::shard));
  layout_ = std::move(layout);
  tables_ = std::move(specs);
  return ok();
}

std::optional<pb::SliceImagesReply> SliceImageStore::take(
    const DataImages& images, const JobView& view, std::uint64_t slice_elements,
    const std::shared_ptr<TableMemory>& memory) {
  if (images.term != place_.term || images.copy != place_.copy) return std::nullopt;
  if (tables_.empty()) {
    if (images.tables.empty()) return std::nullopt;
    if (auto opened = open(images.tables, view, slice_elements, memory); !opened) {
      problem_ = opened.error().message;
      return std::nullopt;
    }
    problem_.clear();
  }
  pb::SliceImagesReply reply;
  reply.set_shard(place_.shard.value());
  reply.set_term(place_.term);
  reply.set_copy(place_.copy);
  for (const ImageItem& image : images.images) {
    const Slice* slice = layout_.find(image.table, image.slice);
    const auto is_clock = [](Clock clock) { return clock >= Clock() && clock < Clock::never(); };
    const bool is_sound = is_clock(image.version) && image.applications >= 0 &&
                          std::ranges::all_of(image.done, [&](const auto& member) {
                            return is_clock(member.second);
                          });
    if (!is_sound) continue;
    if (slice == nullptr || slice->shard != place_.shard) continue;
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
    ImageItem& newest = images_[index];
    if (image.sequence >= newest.sequence) newest = image;
    forget_logged(index, newest);
    note_kept(image, newest.sequence, reply);
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

/// Takes a part of a bucket's image. Where the image that it continues is not here, the primary is
/// told to send all rows.
void SliceImageStore::keep_rows(const ImageItem& image, const Slice& place, std::size_t states,
                                pb::SliceImagesReply& reply) {
  const std::size_t index = layout_.index_of(image.table, image.slice);
  const TableSpec& table = tables_[image.table.value()];
  RowCopy& copy = copies_.try_emplace(index, table, place.slice.value(), states).first->second;
  if (image.sequence > copy.sequence()) {
    switch (copy.take(image)) {
      case RowCopy::Taken::kPart:
        return;
      case RowCopy::Taken::kLacking:
        if (copy.sequence() == 0) images_.erase(index);
        note_kept(image, 0, reply);
        return;
      case RowCopy::Taken::kWhole:
        break;
    }
    ImageItem& newest = images_[index] = image;
    // The rows are in the copy.
    newest.keys = newest.values = Frame();
    newest.states.clear();
    forget_logged(index, newest);
  }
  note_kept(image, copy.sequence(), reply);
}

/// Whether an update may be one of a slice, as a shard takes them.
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
  if (slice == nullptr || slice->shard != place_.shard || one.lent) return;
  if (!is_sound(one, *slice, view)) return;
  const std::size_t index = layout_.index_of(one.table, one.slice);
  const auto image = images_.find(index);
  // A copy that is late: the image holds it.
  if (image == images_.end() || !is_in(image->second, one.worker, one.update.clock)) {
    auto& updates = logged_[index];
    // It waits for an image that makes room.
    if (updates.size() >= kMaxLogged && !updates.contains(one.number)) return;
    updates.insert_or_assign(one.number, one);
  }
  pb::SliceImagesReply::Logged& kept = *reply.add_logged();
  kept.set_table(one.table.value());
  kept.set_slice(one.slice.value());
  kept.set_worker(one.worker.value());
  kept.set_clock(one.update.clock.value());
}

void SliceImageStore::forget_logged(std::size_t index, const ImageItem& image) {
  const auto found = logged_.find(index);
  if (found == logged_.end()) return;
  std::erase_if(found->second, [&](const auto& entry) {
    return is_in(image, entry.second.worker, entry.second.update.clock);
  });
}

std::map<std::size_t, SliceImage> SliceImageStore::slices(BufferPool& values,
                                                          BufferPool& states) const {
  std::map<std::size_t, SliceImage> slices;
  for (const auto& [index, image] : images_) {
    SliceImage& slice = slices[index];
    slice.place = *layout_.find(image.table, image.slice);
    slice.version = image.version;
    slice.applications = image.applications;
    slice.done = image.done;
    slice.is_replica = true;
    if (const auto copy = copies_.find(index); copy != copies_.end()) {
      slice.rows = copy->second.image();
    } else {
      slice.values = copy_of(image.values, values);
      for (const Frame& state : image.states) slice.states.push_back(copy_of(state, states));
    }
    const auto logged = logged_.find(index);
    if (logged == logged_.end()) continue;
    for (const auto& [number, update] : logged->second) slice.logged.push_back(update);
  }
  return slices;
}

}  // namespace taut::server
