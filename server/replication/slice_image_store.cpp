#include "server/replication/slice_image_store.hpp"

#include <algorithm>
#include <cstring>

#include "proto/config/job_state.hpp"

namespace taut::server {
namespace {

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
    if (slice == nullptr || slice->shard != place_.shard ||
        image.values.size() != slice->count * sizeof(float) ||
        image.states.size() != states_of(tables_[image.table.value()], view)) {
      continue;
    }
    ImageItem& newest = images_[layout_.index_of(image.table, image.slice)];
    if (image.sequence >= newest.sequence) newest = image;
    pb::SliceImagesReply::Kept& kept = *reply.add_kept();
    kept.set_table(image.table.value());
    kept.set_slice(image.slice.value());
    kept.set_sequence(newest.sequence);
  }
  return reply;
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
    slice.values = copy_of(image.values, values);
    for (const Frame& state : image.states) slice.states.push_back(copy_of(state, states));
  }
  return slices;
}

}  // namespace taut::server
