#include "proto/formats/checkpoint_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "common/check.hpp"
#include "common/files/file.hpp"
#include "common/files/sha256.hpp"
#include "common/files/tensor_file.hpp"

namespace taut {
namespace fs = std::filesystem;
namespace {

Result<SavedCheckpoint> read_saved(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  TAUT_TRY(const std::string bytes, read_file(path, Bytes(kMaxManifestBytes)));
  TAUT_TRY(pb::CheckpointManifest manifest, parse_manifest(bytes, path.string()));
  Sha256 digest;
  digest.update(std::as_bytes(std::span(bytes)));
  return SavedCheckpoint{folder, std::move(manifest), digest.finish()};
}

Result<pb::CheckpointManifest> read_manifest(const fs::path& folder) {
  TAUT_TRY(SavedCheckpoint saved, read_saved(folder));
  return std::move(saved.manifest);
}

struct Found {
  fs::path folder;
  std::int64_t clock = 0;
  double unix_time_s = 0;  // when it was written
};

/// K of NAME_iter_K and NAME_iter_K-2; 0 if the name does not end like this.
std::int64_t clock_in(const std::string& name) {
  constexpr std::string_view kMark = "_iter_";
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string::npos) return 0;
  const std::size_t begin = mark + kMark.size();
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  const bool is_number = end > begin && end - begin < 18;
  return is_number ? std::stoll(name.substr(begin, end - begin)) : 0;
}

/// The checkpoints in a folder whose manifests are sound, the newest first.
std::vector<Found> checkpoints_in(const fs::path& folder) {
  std::vector<Found> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (!fs::exists(entry->path() / kManifestName, failed)) continue;
    if (const auto manifest = read_manifest(entry->path())) {
      found.push_back({entry->path(), manifest.value().clock(), manifest.value().unix_time_s()});
    } else {
      // A damaged one must not be skipped silently: its name shows how new it is.
      found.push_back({entry->path(), clock_in(entry->path().filename().string())});
    }
  }
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return std::tuple(a.clock, a.unix_time_s, a.folder) >
           std::tuple(b.clock, b.unix_time_s, b.folder);
  });
  return found;
}

/// The folder itself if it is a checkpoint's, or that of the newest one in it.
Result<fs::path> newest_in(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{}: is not a folder, so it holds no checkpoint", folder.string()));
  }
  if (fs::exists(folder / kManifestName, failed)) return folder;
  const std::vector<Found> found = checkpoints_in(folder);
  if (found.empty()) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{}: holds no whole checkpoint: there is no {} in it, nor in a folder of it",
                    folder.string(), kManifestName));
  }
  return found.front().folder;
}

/// Adds to the error of a folder the newest earlier checkpoint that is complete: of those next to
/// it; or in it, if it is a folder of checkpoints.
Error with_earlier(const fs::path& folder, Error error,
                   const std::function<bool(const fs::path&)>& is_whole) {
  std::error_code failed;
  const bool is_one = fs::exists(folder / kManifestName, failed);
  const fs::path self = fs::absolute(folder, failed).lexically_normal();
  const fs::path named = self.has_filename() ? self : self.parent_path();
  bool passed = !is_one;
  for (const Found& other : checkpoints_in(is_one ? named.parent_path() : named)) {
    if (is_one && !passed) {
      passed = other.folder == named;
      continue;
    }
    if (!is_whole(other.folder)) continue;
    error.message += fmt::format("; the one before it, {}, is whole: --resume {}",
                                 other.folder.filename().string(), other.folder.string());
    return error;
  }
  return error;
}

}  // namespace

Result<SavedCheckpoint> find_saved(const fs::path& folder) {
  const auto look_at = [](const fs::path& from) -> Result<SavedCheckpoint> {
    TAUT_TRY(const fs::path place, newest_in(from));
    TAUT_TRY(SavedCheckpoint saved, read_saved(place));
    if (!saved.manifest.has_coding()) {
      TAUT_TRY(CheckpointReader::open_exactly(place, CheckpointReader::Depth::kHeads));
    }
    return saved;
  };
  auto found = look_at(folder);
  if (found) return found;
  return with_earlier(folder, found.error(),
                      [&](const fs::path& other) { return look_at(other).has_value(); });
}

Result<CheckpointReader> CheckpointReader::open(const fs::path& folder) {
  TAUT_TRY(const fs::path place, newest_in(folder));
  return open_exactly(place, Depth::kHeads);
}

Result<CheckpointReader> CheckpointReader::open_exactly(const fs::path& folder, Depth depth) {
  TAUT_TRY(pb::CheckpointManifest manifest, read_manifest(folder));
  return open_with(folder, std::move(manifest), find_parts_here(folder), depth);
}

Result<CheckpointReader> CheckpointReader::open_coded(const fs::path& folder,
                                                      std::string_view manifest,
                                                      const FindPart& find) {
  TAUT_TRY(pb::CheckpointManifest parsed,
           parse_manifest(manifest, (folder / kManifestName).string()));
  return open_with(folder, std::move(parsed), find, Depth::kHeads);
}

Result<CheckpointReader> CheckpointReader::open_with(const fs::path& folder,
                                                     pb::CheckpointManifest manifest,
                                                     const FindPart& find, Depth depth) {
  CheckpointReader reader;
  reader.folder_ = folder;
  reader.manifest_ = std::move(manifest);
  reader.tables_ = tables_of(reader.manifest_);
  auto opened = reader.open_files(find, depth);
  if (!opened && reader.is_coded() && opened.error().code == ErrorCode::kUnavailable) {
    reader.missing_ = opened.error();
    return reader;
  }
  TAUT_TRY(std::move(opened));
  TAUT_TRY(reader.check_coverage());
  return reader;
}

Result<void> CheckpointReader::readable() const {
  if (missing_) return *missing_;
  return ok();
}

Result<CheckpointReader> CheckpointReader::open_to_resume(const fs::path& folder) {
  const auto open_whole = [](const fs::path& from) -> Result<CheckpointReader> {
    TAUT_TRY(const fs::path place, newest_in(from));
    TAUT_TRY(CheckpointReader reader, open_exactly(place, Depth::kBytes));
    TAUT_TRY(reader.readable());
    return reader;
  };
  auto opened = open_whole(folder);
  if (opened) return opened;
  return with_earlier(folder, opened.error(),
                      [&](const fs::path& other) { return open_whole(other).has_value(); });
}

Result<safetensors::Reader> CheckpointReader::open_file(const pb::CheckpointFile& file,
                                                        const FindPart& find, Depth depth) const {
  if (!is_coded()) return open_whole(file, depth);
  TAUT_TRY(TensorFile coded,
           open_coded_file(folder_ / file.name(), manifest_.coding(), file, find));
  return safetensors::Reader::open(std::move(coded));
}

/// Everything that is checked is of one open file, whatever its name leads to by then.
Result<safetensors::Reader> CheckpointReader::open_whole(const pb::CheckpointFile& file,
                                                         Depth depth) const {
  const fs::path path = folder_ / file.name();
  auto opened = TensorFile::open(path);
  if (!opened) return invalid(fmt::format("{}: it is damaged", opened.error().message));
  TensorFile whole = std::move(opened.value());
  if (whole.bytes() != file.bytes()) {
    return invalid(fmt::format("{}: has {} bytes, the manifest says {}: it is damaged",
                               path.string(), whole.bytes(), file.bytes()));
  }
  if (depth == Depth::kBytes) {
    TAUT_TRY(const std::string digest, whole.pin());
    if (digest != file.sha256()) {
      return invalid(fmt::format("{}: its SHA-256 is {}..., the manifest says {}...: it is damaged",
                                 path.string(), digest.substr(0, 12), file.sha256().substr(0, 12)));
    }
  }
  return safetensors::Reader::open(std::move(whole));
}

Result<std::optional<safetensors::Reader>> CheckpointReader::open_compared(
    const std::string& name) const {
  const auto file =
      std::ranges::find_if(manifest_.files(), [&](const auto& one) { return one.name() == name; });
  if (is_coded() || file == manifest_.files().end()) return std::nullopt;
  TAUT_TRY(safetensors::Reader reader, open_whole(*file, Depth::kBytes));
  return std::optional(std::move(reader));
}

Result<void> CheckpointReader::open_files(const FindPart& find, Depth depth) {
  pieces_.resize(tables_.size());
  for (const pb::CheckpointFile& file : manifest_.files()) {
    TAUT_TRY(safetensors::Reader reader, open_file(file, find, depth));
    files_.push_back(std::move(reader));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    TAUT_TRY(note_slices(i));
  }
  return ok();
}

Result<void> CheckpointReader::note_slices(std::size_t file) {
  const pb::CheckpointFile& about = manifest_.files(static_cast<int>(file));
  // The note of a shared file describes the checkpoint for which it was written.
  if (about.order() != 0 && about.order() != manifest_.number()) return ok();
  const std::string path = files_[file].path().string();
  const auto note = files_[file].metadata().find(kSlicesNote);
  if (note == files_[file].metadata().end()) {
    if (about.name().starts_with(kWorkerFile)) return ok();
    return invalid(fmt::format("{}: does not say which slices it holds: it is damaged", path));
  }
  TAUT_TRY(const pb::CheckpointSlices slices, parse_slices(note->second, tables_, path));
  for (const pb::CheckpointSlice& slice : slices.slices()) {
    std::size_t place = file;
    if (!slice.file().empty()) {
      const auto named = std::ranges::find(manifest_.files(), slice.file(),
                                           [](const auto& one) { return one.name(); });
      place = static_cast<std::size_t>(named - manifest_.files().begin());
    }
    const std::string& table = tables_[slice.table()].name;
    const bool whole = place < files_.size() && is_whole(slice, files_[place]);
    if (!whole || !pieces_[slice.table()].emplace(slice.offset(), Piece{slice, place}).second) {
      return invalid(
          fmt::format("{}: {} is missing or occurs twice", path, slice_tensor(table, slice)));
    }
  }
  return ok();
}

/// Whether a file has all tensors of a slice.
bool CheckpointReader::is_whole(const pb::CheckpointSlice& slice,
                                const safetensors::Reader& file) const {
  const TableSpec& table = tables_[slice.table()];
  const auto holds = [&](const std::string& name, ElementType type, std::uint64_t count) {
    const safetensors::Tensor* tensor = file.find(name);
    return tensor != nullptr && tensor->type == type && tensor->count() == count;
  };
  // A row has at most 2^20 elements, and a table 2^40: no product is too large.
  const std::uint64_t floats = table.rows ? slice.rows() * table.width() : slice.count();
  bool whole = holds(slice_tensor(table.name, slice), ElementType::kF32, floats);
  for (std::uint32_t i = 0; i < slice.states(); ++i) {
    whole = whole && holds(state_tensor(table.name, slice, i), ElementType::kF32, floats);
  }
  if (!whole || !table.rows) return whole;
  return holds(row_numbers_tensor(table.name, slice), ElementType::kU64, slice.rows()) &&
         holds(row_clocks_tensor(table.name, slice), ElementType::kI64, slice.rows());
}

/// Checks that every table has all of its elements, or buckets.
Result<void> CheckpointReader::check_coverage() const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    std::uint64_t end = 0;
    std::optional<std::uint32_t> states;
    for (const auto& [offset, piece] : pieces_[t]) {
      if (offset != end || states.value_or(piece.slice.states()) != piece.slice.states()) break;
      states = piece.slice.states();
      end += piece.slice.count();
    }
    const bool by_rows = tables_[t].rows.has_value();
    const std::uint64_t count = by_rows ? tables_[t].rows->buckets : tables_[t].count();
    if (end == count) continue;
    const char* what = by_rows ? "bucket" : "element";
    return invalid(fmt::format("{}: table \"{}\" of {} {}s is not whole from {} {} on",
                               folder_.string(), tables_[t].name, count, what, what, end));
  }
  return ok();
}

const TableSpec* CheckpointReader::find(std::string_view name) const {
  const auto found = std::ranges::find(tables_, name, &TableSpec::name);
  return found == tables_.end() ? nullptr : &*found;
}

std::uint32_t CheckpointReader::states_of(TableId table) const {
  TAUT_CHECK(!pieces_.at(table.value()).empty(), "the states of a checkpoint that is not readable");
  return pieces_[table.value()].begin()->second.slice.states();
}

CheckpointReader::Stored CheckpointReader::find_slice(TableId table, std::uint64_t offset,
                                                      std::uint64_t count) const {
  if (table.value() >= pieces_.size()) return {};
  const auto found = pieces_[table.value()].find(offset);
  if (found == pieces_[table.value()].end() || found->second.slice.count() != count) return {};
  return {&found->second.slice, &manifest_.files(static_cast<int>(found->second.file))};
}

std::vector<const pb::CheckpointSlice*> CheckpointReader::slices_of(TableId table,
                                                                    std::uint64_t first,
                                                                    std::uint64_t count) const {
  std::vector<const pb::CheckpointSlice*> shared;
  for (const auto& [offset, piece] : pieces_[table.value()]) {
    if (offset < first + count && first < offset + piece.slice.count()) {
      shared.push_back(&piece.slice);
    }
  }
  return shared;
}

Result<void> CheckpointReader::read_values(TableId table, std::uint64_t first,
                                           std::span<float> out) const {
  return read(table, -1, first, out);
}

Result<void> CheckpointReader::read_state(TableId table, std::uint32_t state, std::uint64_t first,
                                          std::span<float> out) const {
  TAUT_TRY(readable());
  if (table.value() < tables_.size() && state >= states_of(table)) {
    return invalid(fmt::format("{}: table \"{}\" has {} states, not {}", folder_.string(),
                               tables_[table.value()].name, states_of(table), state + 1));
  }
  return read(table, static_cast<int>(state), first, out);
}

Result<void> CheckpointReader::read(TableId table, int state, std::uint64_t first,
                                    std::span<float> out) const {
  TAUT_TRY(readable());
  if (table.value() >= tables_.size() || first > tables_[table.value()].count() ||
      out.size() > tables_[table.value()].count() - first) {
    return invalid(fmt::format("{}: {} elements from {} on are not in table {}", folder_.string(),
                               out.size(), first, table.value()));
  }
  if (tables_[table.value()].rows) {
    return invalid(fmt::format("{}: table \"{}\" is kept by rows, and has no array of all values",
                               folder_.string(), tables_[table.value()].name));
  }
  const auto& pieces = pieces_[table.value()];
  auto next = std::prev(pieces.upper_bound(first));
  while (!out.empty()) {
    const auto& [offset, piece] = *next++;
    const std::string& name = tables_[table.value()].name;
    const std::string tensor =
        state < 0 ? slice_tensor(name, piece.slice)
                  : state_tensor(name, piece.slice, static_cast<std::uint32_t>(state));
    const safetensors::Reader& file = files_[piece.file];
    const std::uint64_t within = first - offset;
    const auto count = std::min<std::uint64_t>(out.size(), piece.slice.count() - within);
    TAUT_TRY(file.read_floats(*file.find(tensor), within, out.first(count)));
    first += count;
    out = out.subspan(count);
  }
  return ok();
}

}  // namespace taut
