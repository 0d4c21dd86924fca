#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/safetensors.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "proto/formats/checkpoint_parts.hpp"

namespace taut {

/// A checkpoint that a job resumes.
struct SavedCheckpoint {
  std::filesystem::path folder;
  pb::CheckpointManifest manifest;
  std::string manifest_sha256;  // of the manifest's file
};

/// Finds the checkpoint in `folder`, or the newest one of those in it, without reading whole files:
/// unless it is coded, it checks that each file exists with its size and a sound header; parts of
/// coded ones are not looked for. If it is damaged, the message names the newest earlier one that
/// is not.
/// Errors    as CheckpointReader::open()
[[nodiscard]] Result<SavedCheckpoint> find_saved(const std::filesystem::path& folder);

/// A checkpoint's tables, read from its folder however they were cut and distributed when it was
/// written.
/// Thread    reads from several at once are allowed
class CheckpointReader {
 public:
  /// Opens the checkpoint in `folder`, or the newest one (by its clock) of those in it. Checks that
  /// the manifest is sound, every file exists with its size and a sound header, and every table is
  /// covered once.
  /// Errors    not_found: no checkpoint there, or one that was never finished; invalid: the file
  ///           that is damaged or missing, and how; mismatch: of another format
  [[nodiscard]] static Result<CheckpointReader> open(const std::filesystem::path& folder);

  /// Opens a coded checkpoint whose parts are found by other means than in folders of this machine.
  /// manifest  the bytes of its file
  [[nodiscard]] static Result<CheckpointReader> open_coded(const std::filesystem::path& folder,
                                                           std::string_view manifest,
                                                           const FindPart& find);

  /// Opens it as open() does and compares every file with its SHA-256; what is read afterwards is
  /// what was compared, or an error. If it is damaged, the message names the newest earlier one
  /// that is complete. Parts of coded ones are compared when they are opened, however the
  /// checkpoint is opened.
  /// Errors    also invalid, with the first file that differs; those of readable()
  [[nodiscard]] static Result<CheckpointReader> open_to_resume(const std::filesystem::path& folder);

  /// One of its files, compared with its SHA-256 as open_to_resume() does; nullopt if the manifest
  /// does not name it, or the checkpoint is coded.
  /// Errors    invalid: it is damaged or missing; io
  [[nodiscard]] Result<std::optional<safetensors::Reader>> open_compared(
      const std::string& name) const;

  /// Checks that its tables can be read. A coded checkpoint also opens without its parts, which may
  /// be on other machines' disks. Errors: unavailable, with the parts that are missing.
  [[nodiscard]] Result<void> readable() const;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool is_coded() const { return manifest_.has_coding(); }
  [[nodiscard]] const pb::CheckpointManifest& manifest() const { return manifest_; }
  [[nodiscard]] Clock clock() const { return Clock(manifest_.clock()); }
  /// In order of their numbers.
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  /// nullptr if no table has that name.
  [[nodiscard]] const TableSpec* find(std::string_view name) const;
  /// How many numbers the update rule kept for each of the table's values. REQUIRES: readable().
  [[nodiscard]] std::uint32_t states_of(TableId table) const;

  /// Values [first, first + out.size()) of a table.
  /// Errors    invalid: beyond its end, or it is kept by rows; io
  [[nodiscard]] Result<void> read_values(TableId table, std::uint64_t first,
                                         std::span<float> out) const;
  /// As read_values(), for the number at index `state` that the rule kept for each value. Errors:
  /// also invalid: the rule kept fewer.
  [[nodiscard]] Result<void> read_state(TableId table, std::uint32_t state, std::uint64_t first,
                                        std::span<float> out) const;

  /// A bucket of a table that is kept by rows, as it was saved.
  /// REQUIRES: readable(); the table is kept by rows and has this bucket.
  [[nodiscard]] const pb::CheckpointSlice& bucket(TableId table, std::uint32_t bucket) const;
  /// The numbers of its rows, and the clocks of their last updates. Errors: io.
  /// REQUIRES: as bucket(), here and below; out has as many elements as the bucket rows.
  [[nodiscard]] Result<void> read_row_numbers(TableId table, std::uint32_t bucket,
                                              std::span<std::uint64_t> out) const;
  [[nodiscard]] Result<void> read_row_clocks(TableId table, std::uint32_t bucket,
                                             std::span<std::int64_t> out) const;
  /// Rows' values, or what the update rule kept for each.
  /// part   0: the values; n: the n-th state
  /// first  of the bucket's rows, in their order
  /// out    [rows, width]
  /// Errors    invalid: beyond the bucket's end; io
  [[nodiscard]] Result<void> read_row_floats(TableId table, std::uint32_t bucket,
                                             std::uint32_t part, std::uint64_t first,
                                             std::span<float> out) const;

  /// A slice as it was saved, and the file that has its tensors; nullptr if none is cut like this.
  struct Stored {
    const pb::CheckpointSlice* slice = nullptr;
    const pb::CheckpointFile* file = nullptr;
  };
  [[nodiscard]] Stored find_slice(TableId table, std::uint64_t offset, std::uint64_t count) const;

  /// The slices that share elements with [first, first + count) of a table, by offset.
  [[nodiscard]] std::vector<const pb::CheckpointSlice*> slices_of(TableId table,
                                                                  std::uint64_t first,
                                                                  std::uint64_t count) const;

 private:
  struct Piece {
    pb::CheckpointSlice slice;
    std::size_t file = 0;  // into files_
  };
  CheckpointReader() = default;
  friend Result<SavedCheckpoint> find_saved(const std::filesystem::path& folder);
  enum class Depth : std::uint8_t { kHeads, kBytes };  // what is read of files
  static Result<CheckpointReader> open_exactly(const std::filesystem::path& folder, Depth depth);
  static Result<CheckpointReader> open_with(const std::filesystem::path& folder,
                                            pb::CheckpointManifest manifest, const FindPart& find,
                                            Depth depth);
  [[nodiscard]] Result<void> open_files(const FindPart& find, Depth depth);
  [[nodiscard]] Result<safetensors::Reader> open_file(const pb::CheckpointFile& file,
                                                      const FindPart& find, Depth depth) const;
  [[nodiscard]] Result<safetensors::Reader> open_whole(const pb::CheckpointFile& file,
                                                       Depth depth) const;
  /// Adds the slices that a file's note describes.
  [[nodiscard]] Result<void> note_slices(std::size_t file);
  [[nodiscard]] Result<void> check_coverage() const;
  [[nodiscard]] bool is_whole(const pb::CheckpointSlice& slice,
                              const safetensors::Reader& file) const;
  [[nodiscard]] const Piece& piece_of(TableId table, std::uint32_t bucket) const;
  [[nodiscard]] Result<void> read(TableId table, int state, std::uint64_t first,
                                  std::span<float> out) const;

  std::filesystem::path folder_;
  pb::CheckpointManifest manifest_;
  std::vector<TableSpec> tables_;
  std::vector<safetensors::Reader> files_;              // in the manifest's order
  std::optional<Error> missing_;                        // for a coded one: why it cannot be read
  std::vector<std::map<std::uint64_t, Piece>> pieces_;  // by table, then offset
};

}  // namespace taut
