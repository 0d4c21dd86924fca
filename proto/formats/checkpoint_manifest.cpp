#include "proto/formats/checkpoint_manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/coding/reed_solomon.hpp"
#include "common/files/sha256.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"

namespace taut {
namespace {

constexpr std::string_view kChecksumLine = "# sha256 of the above: ";
constexpr std::size_t kDigestDigits = 64;
constexpr int kMaxTables = 1 << 20;
constexpr int kMaxFiles = 1 << 16;
constexpr int kMaxMembers = 1 << 16;
constexpr std::uint32_t kMaxStates = 16;
// About four terabytes of float32.
constexpr std::uint64_t kMaxElements = 1ULL << 40U;
constexpr std::uint64_t kMaxBlockBytes = 64ULL << 20U;
constexpr std::uint64_t kMaxFileBytes = 1ULL << 50U;

std::string digest_of(std::string_view text) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.finish();
}

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Result<void> check_coding(const pb::CheckpointManifest& manifest, const std::string& name) {
  if (!manifest.has_coding()) return ok();
  const pb::CheckpointCoding& coding = manifest.coding();
  const bool is_sound = coding.data() >= 1 && coding.data() <= ReedSolomon::kMaxData &&
                        coding.parity() >= 1 && coding.parity() <= ReedSolomon::kMaxParity &&
                        coding.block_bytes() >= 1 && coding.block_bytes() <= kMaxBlockBytes;
  if (is_sound) return ok();
  return invalid(fmt::format("{}: {} data and {} parity parts in blocks of {} bytes", name,
                             coding.data(), coding.parity(), coding.block_bytes()));
}

Result<void> check_parts(const pb::CheckpointCoding& coding, const pb::CheckpointFile& file,
                         const std::string& name) {
  const auto parts = static_cast<std::uint32_t>(file.parts_size());
  if (parts != coding.data() + coding.parity()) {
    return invalid(fmt::format("{}: file \"{}\" has {} parts, not {}", name, file.name(), parts,
                               coding.data() + coding.parity()));
  }
  if (file.bytes() > kMaxFileBytes) {
    return invalid(fmt::format("{}: file \"{}\" has {} bytes; the limit is {}", name, file.name(),
                               file.bytes(), kMaxFileBytes));
  }
  for (const pb::CodedPart& part : file.parts()) {
    if (is_digest(part.sha256())) continue;
    return invalid(fmt::format("{}: a part of file \"{}\" has no SHA-256", name, file.name()));
  }
  return ok();
}

Result<void> check_files(const pb::CheckpointManifest& manifest, const std::string& name) {
  std::set<std::string_view> names;
  if (manifest.files_size() == 0 || manifest.files_size() > kMaxFiles) {
    return invalid(fmt::format("{}: names {} files", name, manifest.files_size()));
  }
  for (const pb::CheckpointFile& file : manifest.files()) {
    if (!is_plain_name(file.name()) || !names.insert(file.name()).second) {
      return invalid(
          fmt::format("{}: \"{}\" is not a file's name here, or occurs twice", name, file.name()));
    }
    if (manifest.has_coding()) {
      TAUT_TRY(check_parts(manifest.coding(), file, name));
    } else if (!is_digest(file.sha256())) {
      return invalid(fmt::format("{}: file \"{}\" has no SHA-256", name, file.name()));
    }
  }
  return ok();
}

Result<void> check_tables(const pb::CheckpointManifest& manifest, const std::string& name) {
  if (manifest.tables_size() == 0 || manifest.tables_size() > kMaxTables) {
    return invalid(fmt::format("{}: names {} tables", name, manifest.tables_size()));
  }
  std::set<std::string_view> names;
  for (int i = 0; i < manifest.tables_size(); ++i) {
    const pb::TableSpec& table = manifest.tables(i);
    const auto read = from_wire(table);
    if (!read) return invalid(fmt::format("{}: {}", name, read.error().message));
    if (table.table() != static_cast<std::uint32_t>(i) || !names.insert(table.name()).second) {
      return invalid(
          fmt::format("{}: table \"{}\" is at place {}, or occurs twice", name, table.name(), i));
    }
  }
  return ok();
}

Result<void> check_members(const pb::CheckpointManifest& manifest, const std::string& name) {
  std::set<std::uint32_t> workers;
  if (manifest.members_size() == 0 || manifest.members_size() > kMaxMembers) {
    return invalid(fmt::format("{}: names {} members", name, manifest.members_size()));
  }
  for (const pb::CheckpointMember& member : manifest.members()) {
    if (member.slot() >= manifest.slots() || !workers.insert(member.worker()).second) {
      return invalid(fmt::format("{}: member {} with share {} of {}", name, member.worker(),
                                 member.slot(), manifest.slots()));
    }
  }
  return ok();
}

}  // namespace

std::string write_manifest(const pb::CheckpointManifest& manifest) {
  std::string text = "# A checkpoint of Tautline.\n" + to_text(manifest);
  const std::string digest = digest_of(text);
  text += kChecksumLine;
  text += digest + "\n";
  return text;
}

Result<pb::CheckpointManifest> parse_manifest(std::string_view bytes, const std::string& name) {
  const std::size_t tail = kChecksumLine.size() + kDigestDigits + 1;
  const bool has_tail = bytes.size() > tail && bytes.back() == '\n' &&
                        bytes.substr(bytes.size() - tail).starts_with(kChecksumLine);
  if (!has_tail) {
    return invalid(
        fmt::format("{}: does not end with its checksum: it is cut off or changed", name));
  }
  const std::string_view text = bytes.substr(0, bytes.size() - tail);
  const std::string_view digest = bytes.substr(bytes.size() - kDigestDigits - 1, kDigestDigits);
  if (digest_of(text) != digest) {
    return invalid(fmt::format("{}: its checksum does not match: it is damaged", name));
  }
  pb::CheckpointManifest manifest;
  TAUT_TRY(parse_text(text, name, manifest));
  if (manifest.format() < kPlainCheckpointFormat || manifest.format() > kCheckpointFormat) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("{}: has format {}, this release reads {} to {}; it was written by {}", name,
                    manifest.format(), kPlainCheckpointFormat, kCheckpointFormat,
                    manifest.build()));
  }
  if (manifest.clock() < 0 || manifest.slack() < 0) {
    return invalid(fmt::format("{}: clock {}, slack {}", name, manifest.clock(), manifest.slack()));
  }
  TAUT_TRY(check_tables(manifest, name));
  TAUT_TRY(check_coding(manifest, name));
  TAUT_TRY(check_files(manifest, name));
  TAUT_TRY(check_members(manifest, name));
  return manifest;
}

std::vector<TableSpec> tables_of(const pb::CheckpointManifest& manifest) {
  std::vector<TableSpec> tables;
  for (const pb::TableSpec& wire : manifest.tables()) tables.push_back(from_wire(wire).value());
  return tables;
}

namespace {

/// Whether a slice in a note can be one of the table's.
bool is_of(const TableSpec& table, const pb::CheckpointSlice& slice) {
  if (slice.count() == 0 || slice.count() > kMaxElements || slice.offset() > kMaxElements) {
    return false;
  }
  const std::uint64_t end = slice.offset() + slice.count();
  if (!table.rows) return end <= table.count() && slice.rows() == 0;
  return slice.count() == 1 && end <= table.rows->buckets &&
         slice.rows() <= static_cast<std::uint64_t>(table.shape[0]);
}

}  // namespace

Result<pb::CheckpointSlices> parse_slices(std::string_view text,
                                          const std::vector<TableSpec>& tables,
                                          const std::string& name) {
  pb::CheckpointSlices slices;
  TAUT_TRY(parse_text(text, name, slices));
  for (const pb::CheckpointSlice& slice : slices.slices()) {
    const bool known = slice.table() < tables.size();
    if (!known || !is_of(tables[slice.table()], slice) || slice.states() > kMaxStates ||
        slice.applications() < 0 || slice.version() < 0) {
      return invalid(fmt::format("{}: a slice [{}, +{}) of table {} cannot be", name,
                                 slice.offset(), slice.count(), slice.table()));
    }
  }
  return slices;
}

std::string slice_tensor(const std::string& table, const pb::CheckpointSlice& slice) {
  return fmt::format("{}[{}:{}]", table, slice.offset(), slice.offset() + slice.count());
}

std::string state_tensor(const std::string& table, const pb::CheckpointSlice& slice,
                         std::uint32_t state) {
  return fmt::format("{}.state{}", slice_tensor(table, slice), state);
}

std::string row_numbers_tensor(const std::string& table, const pb::CheckpointSlice& slice) {
  return slice_tensor(table, slice) + ".rows";
}

std::string row_clocks_tensor(const std::string& table, const pb::CheckpointSlice& slice) {
  return slice_tensor(table, slice) + ".clocks";
}

std::string shard_file_name(std::uint32_t shard) {
  return fmt::format("shard{}.safetensors", shard);
}

std::string shard_file_name(std::uint32_t shard, std::uint64_t order, bool changed) {
  return fmt::format("shard{}-{}{}.safetensors", shard, order, changed ? "" : "-unchanged");
}

std::string part_file_name(const std::string& file, std::size_t part) {
  return fmt::format("{}.part{}", file, part);
}

std::string worker_file_name(std::uint32_t slot) {
  return fmt::format("{}{}.safetensors", kWorkerFile, slot);
}

}  // namespace taut
