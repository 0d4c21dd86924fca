#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/files/safetensors.hpp"
#include "common/files/sha256.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "proto/formats/checkpoint_manifest.hpp"
#include "tests/support/catch.hpp"

namespace taut::test {

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A small checkpoint: table "a" of 10 elements in two slices on two shards, table "b" of 4 in one,
/// each with one state. Value i of a table is 100 * table + i + clock / 1000, its state the
/// negative.
class CheckpointMaker {
 public:
  explicit CheckpointMaker(std::int64_t clock) {
    manifest.set_format(kCheckpointFormat);
    manifest.set_build("a test");
    manifest.set_job(3);
    manifest.set_number(1);
    manifest.set_clock(clock);
    manifest.set_slots(2);
    manifest.mutable_definition()->set_name("tiny");
    for (std::uint32_t i = 0; i < 2; ++i) {
      pb::CheckpointMember& member = *manifest.add_members();
      member.set_worker(i);
      member.set_slot(i);
      member.set_name("worker" + std::to_string(i));
      member.set_leave_clock(Clock::never().value());
      pb::TableSpec& table = *manifest.add_tables();
      table.set_table(i);
      table.set_name(i == 0 ? "a" : "b");
      table.add_shape(i == 0 ? 5 : 2);
      table.add_shape(2);
      table.mutable_filler()->set_type("constant");
      table.set_lr_mult(1);
      table.set_decay_mult(1);
    }
    slices = {{slice(0, 0, 6), slice(1, 0, 4)}, {slice(0, 6, 4)}};
  }

  [[nodiscard]] float value(std::uint32_t table, std::uint64_t i) const {
    return static_cast<float>(100 * table + i) + static_cast<float>(manifest.clock()) / 1000;
  }

  /// Writes it whole; slices and manifest may have been changed before.
  void write(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    manifest.clear_files();
    for (std::size_t shard = 0; shard < slices.size(); ++shard) {
      const auto path = folder / shard_file_name(static_cast<std::uint32_t>(shard));
      write_shard(path, slices[shard]);
      pb::CheckpointFile& file = *manifest.add_files();
      file.set_name(path.filename().string());
      file.set_bytes(std::filesystem::file_size(path));
      Sha256 digest;
      const std::string bytes = bytes_of_file(path);
      digest.update(std::as_bytes(std::span(bytes)));
      file.set_sha256(digest.finish());
    }
    put_file(folder / kManifestName, write_manifest(manifest));
  }

  pb::CheckpointManifest manifest;
  std::vector<std::vector<pb::CheckpointSlice>> slices;  // by shard

 private:
  [[nodiscard]] pb::CheckpointSlice slice(std::uint32_t table, std::uint64_t offset,
                                          std::uint64_t count) const {
    pb::CheckpointSlice entry;
    entry.set_table(table);
    entry.set_offset(offset);
    entry.set_count(count);
    entry.set_version(manifest.clock());
    entry.set_applications(manifest.clock());
    entry.set_states(1);
    for (std::uint32_t worker = 0; worker < 2; ++worker) {
      entry.add_done()->set_worker(worker);
      entry.mutable_done(static_cast<int>(worker))->set_done(manifest.clock() + worker);
    }
    return entry;
  }
  void write_shard(const std::filesystem::path& path,
                   const std::vector<pb::CheckpointSlice>& held) const {
    pb::CheckpointSlices note;
    std::vector<safetensors::TensorSpec> tensors;
    for (const pb::CheckpointSlice& one : held) {
      *note.add_slices() = one;
      const std::string& table = manifest.tables(static_cast<int>(one.table())).name();
      tensors.push_back({slice_tensor(table, one), {one.count()}});
      tensors.push_back({state_tensor(table, one, 0), {one.count()}});
    }
    auto writer = safetensors::Writer::create(path, tensors, {{kSlicesNote, to_text(note)}});
    REQUIRE(writer.has_value());
    for (const pb::CheckpointSlice& one : held) {
      std::vector<float> values;
      for (std::uint64_t i = 0; i < one.count(); ++i) {
        values.push_back(value(one.table(), one.offset() + i));
      }
      REQUIRE(writer.value().append(std::span<const float>(values)).has_value());
      for (float& one_value : values) one_value = -one_value;
      REQUIRE(writer.value().append(std::span<const float>(values)).has_value());
    }
    REQUIRE(writer.value().finish().has_value());
  }
};

}  // namespace taut::test
