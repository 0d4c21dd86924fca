#include "server/checkpoints/unchanged_slices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "common/files/allowed_folders.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut::server {
namespace fs = std::filesystem;
namespace {

/// Whether values and states are those that were saved.
bool is_same(const SliceImage& image, const CheckpointReader::Stored& saved,
             const ShardCapture& capture) {
  if (saved.slice == nullptr || saved.slice->states() != image.states.size()) return false;
  // No update changes a frozen table, whoever serves it.
  if (capture.tables[image.place.table.value()].kind == TableKind::kFrozen) return true;
  // A slice that was taken over may have applied as many updates in another order.
  const auto term = capture.terms.find(image.place.shard);
  const std::uint64_t now = term == capture.terms.end() ? 0 : term->second;
  return saved.slice->term() == now && saved.slice->applications() == image.applications;
}

}  // namespace

UnchangedSlices UnchangedSlices::link(const ShardCapture& capture) {
  UnchangedSlices unchanged;
  const fs::path base = capture.order.base;
  for (const SliceImage& image : capture.slices) {
    if (capture.tables[image.place.table.value()].kind != TableKind::kFrozen) continue;
    unchanged.resting_[place_of(image)] = "";
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
  struct Use {
    const pb::CheckpointFile* file = nullptr;
    std::uint64_t bytes = 0;  // that this capture needs
    std::vector<Place> slices;
  };
  std::map<std::string, Use> uses;
  for (const SliceImage& image : capture.slices) {
    const auto stored =
        saved.value().find_slice(image.place.table, image.place.offset, image.place.count);
    if (!is_same(image, stored, capture)) continue;
    unchanged.resting_[place_of(image)] = "";
    Use& use = uses[stored.file->name()];
    use.file = stored.file;
    use.bytes += image.place.count * sizeof(float) * (1 + image.states.size());
    use.slices.push_back(place_of(image));
  }
  for (const auto& [name, use] : uses) {
    if (2 * use.bytes < use.file->bytes()) continue;
    std::error_code failed;
    const fs::path link = fs::path(capture.order.folder) / name;
    fs::create_hard_link(base / name, link, failed);
    // Another shard of this job may need the same file.
    std::error_code ignored;
    const bool is_linked =
        failed == std::errc::file_exists && fs::equivalent(base / name, link, ignored);
    if (failed && !is_linked) {
      unchanged.problem_ =
          fmt::format("{}: no link to it can be made in {}: {}", (base / name).string(),
                      capture.order.folder, failed.message());
      continue;
    }
    for (const Place& place : use.slices) unchanged.resting_[place] = name;
    pb::CheckpointFile& file = unchanged.files_.emplace_back(*use.file);
    if (file.order() == 0) file.set_order(saved.value().manifest().number());
  }
  return unchanged;
}

const std::string* UnchangedSlices::file_of(const SliceImage& image) const {
  const auto found = resting_.find(place_of(image));
  return found == resting_.end() || found->second.empty() ? nullptr : &found->second;
}

bool UnchangedSlices::rests(const SliceImage& image) const {
  return resting_.contains(place_of(image));
}

}  // namespace taut::server
