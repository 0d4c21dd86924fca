#include "server/checkpoints/unchanged_slices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "common/files/allowed_folders.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut::server {
namespace fs = std::filesystem;
namespace {

bool is_bucket(const SliceImage& image, const ShardCapture& capture) {
  return capture.tables[image.place.table.value()].rows.has_value();
}

std::uint64_t bytes_of(const SliceImage& image, const ShardCapture& capture) {
  const std::uint64_t floats = image.place.count * sizeof(float);
  if (!is_bucket(image, capture)) return floats * (1 + image.states.size());
  const std::uint64_t keys = sizeof(std::uint64_t) + sizeof(std::int64_t);
  return image.rows.rows * (keys + floats * (1 + image.rows.states));
}

/// Whether values and states are those that were saved.
bool is_same(const SliceImage& image, const CheckpointReader::Stored& saved,
             const ShardCapture& capture) {
  const std::size_t states = is_bucket(image, capture) ? image.rows.states : image.states.size();
  if (saved.slice == nullptr || saved.slice->states() != states) return false;
  // No update changes a frozen table, whichever server has it.
  if (capture.tables[image.place.table.value()].kind == TableKind::kFrozen) return true;
  // A slice that was taken over may have applied as many updates in another order.
  const auto term = capture.terms.find(image.place.shard);
  const std::uint64_t now = term == capture.terms.end() ? 0 : term->second;
  if (saved.slice->term() != now) return false;
  // Each clock is an application to a bucket, even if it changes no row.
  if (is_bucket(image, capture)) {
    return saved.slice->rows() == image.rows.rows &&
           saved.slice->row_changes() == image.rows.changes;
  }
  return saved.slice->applications() == image.applications;
}

}  // namespace

UnchangedSlices UnchangedSlices::link(const ShardCapture& capture) {
  UnchangedSlices unchanged;
  const fs::path base = capture.order.base;
  for (const SliceImage& image : capture.slices) {
    if (capture.tables[image.place.table.value()].kind != TableKind::kFrozen) continue;
    unchanged.unchanged_[place_of(image)] = "";
  }
  if (base.empty()) return unchanged;
  if (const auto allowed = check_place(base); !allowed) {
    unchanged.problem_ = allowed.error().message;
    return unchanged;
  }
  const auto saved = CheckpointReader::open(base);
  if (!saved) {
    unchanged.problem_ = saved.error().message;
    return unchanged;
  }
  for (const auto& [name, use] : unchanged.compare(capture, saved.value())) {
    if (2 * use.bytes >= use.file->bytes()) unchanged.link_file(capture, saved.value(), use);
  }
  return unchanged;
}

std::map<std::string, UnchangedSlices::Use> UnchangedSlices::compare(const ShardCapture& capture,
                                                                     const CheckpointReader& base) {
  std::map<std::string, Use> uses;
  for (const SliceImage& image : capture.slices) {
    const auto stored = base.find_slice(image.place.table, image.place.offset,
                                        is_bucket(image, capture) ? 1 : image.place.count);
    if (!is_same(image, stored, capture)) continue;
    unchanged_[place_of(image)] = "";
    Use& use = uses[stored.file->name()];
    use.file = stored.file;
    use.bytes += bytes_of(image, capture);
    use.slices.push_back(place_of(image));
  }
  return uses;
}

void UnchangedSlices::link_file(const ShardCapture& capture, const CheckpointReader& base,
                                const Use& use) {
  const std::string& name = use.file->name();
  const fs::path from = fs::path(capture.order.base) / name;
  const fs::path link = fs::path(capture.order.folder) / name;
  std::error_code failed;
  fs::create_hard_link(from, link, failed);
  // Another shard of this job may need the same file.
  std::error_code ignored;
  const bool is_linked = failed == std::errc::file_exists && fs::equivalent(from, link, ignored);
  if (failed && !is_linked) {
    problem_ = fmt::format("{}: no link to it can be made in {}: {}", from.string(),
                           capture.order.folder, failed.message());
    return;
  }
  for (const Place& place : use.slices) unchanged_[place] = name;
  pb::CheckpointFile& file = files_.emplace_back(*use.file);
  if (file.order() == 0) file.set_order(base.manifest().number());
}

const std::string* UnchangedSlices::file_of(const SliceImage& image) const {
  const auto found = unchanged_.find(place_of(image));
  return found == unchanged_.end() || found->second.empty() ? nullptr : &found->second;
}

bool UnchangedSlices::contains(const SliceImage& image) const {
  return unchanged_.contains(place_of(image));
}

}  // namespace taut::server
