#include <filesystem>
#include <string>
#include <vector>

#include "common/coding/coded_file.hpp"
#include "proto/formats/checkpoint_reader.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;
using test::bytes_of_file;
using test::CheckpointMaker;
using test::put_file;

std::string digest_of(const std::string& bytes) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(bytes)));
  return digest.finish();
}

/// A checkpoint in 4 + 2 parts on three servers' disks, two parts of each file on each.
struct Coded {
  explicit Coded(const fs::path& home) : folder(home / "tiny_iter_40"), maker(40) {
    maker.write(folder);
    pb::CheckpointManifest& manifest = maker.manifest;
    manifest.mutable_coding()->set_data(4);
    manifest.mutable_coding()->set_parity(2);
    manifest.mutable_coding()->set_block_bytes(64);
    for (pb::CheckpointFile& file : *manifest.mutable_files()) {
      const std::string bytes = bytes_of_file(folder / file.name());
      fs::remove(folder / file.name());
      std::vector<std::string> parts(6);
      PartEncoder encoder(
          ReedSolomon(4, 2), striping_of(manifest.coding(), bytes.size()),
          [&](std::size_t part, std::uint64_t, std::span<const std::byte> more) -> Result<void> {
            parts[part].append(reinterpret_cast<const char*>(more.data()), more.size());
            return ok();
          });
      REQUIRE(encoder.append(std::as_bytes(std::span(bytes))).has_value());
      REQUIRE(encoder.finish().has_value());
      file.clear_sha256();
      for (std::size_t i = 0; i < 6; ++i) {
        const std::string server = "server" + std::to_string(i % 3);
        const fs::path place = home / disk_folder_name(server) / folder.filename();
        fs::create_directories(place);
        put_file(place / part_file_name(file.name(), i), parts[i]);
        files.push_back(place / part_file_name(file.name(), i));
        pb::CodedPart& part = *file.add_parts();
        part.set_holder(server);
        part.set_sha256(digest_of(parts[i]));
      }
    }
    write_manifests();
  }
  void write_manifests() const {
    put_file(folder / kManifestName, write_manifest(maker.manifest));
    for (const char* server : {"server0", "server1", "server2"}) {
      put_file(folder.parent_path() / disk_folder_name(server) / folder.filename() / kManifestName,
               write_manifest(maker.manifest));
    }
  }
  [[nodiscard]] bool reads_from(const fs::path& place) const {
    const auto opened = CheckpointReader::open_to_resume(place);
    if (!opened) return false;
    std::vector<float> values(10);
    REQUIRE(opened.value().read_values(TableId(0), 0, values).has_value());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == maker.value(0, i));
    std::vector<float> states(4);
    REQUIRE(opened.value().read_state(TableId(1), 0, 0, states).has_value());
    for (std::size_t i = 0; i < states.size(); ++i) CHECK(states[i] == -maker.value(1, i));
    return true;
  }

  const fs::path folder;
  CheckpointMaker maker;
  std::vector<fs::path> files;
};

TEST_CASE("a checkpoint in parts reads like a whole one, from any server's copy", "[checkpoint]") {
  const test::TempFolder home;
  const Coded coded(home.path());
  CHECK(coded.reads_from(coded.folder));
  CHECK(coded.reads_from(home.path()));
  CHECK(coded.reads_from(home.path() / "disk-server1" / "tiny_iter_40"));
  CHECK(CheckpointReader::open(coded.folder).value().is_coded());
}

TEST_CASE("any one of three disks may be gone, with the coordinator's folder", "[checkpoint]") {
  for (const std::string lost : {"server0", "server1", "server2"}) {
    const test::TempFolder home;
    const Coded coded(home.path());
    fs::remove_all(home.path() / disk_folder_name(lost));
    CHECK(coded.reads_from(coded.folder));
    fs::remove_all(coded.folder);
    const std::string other = lost == "server0" ? "server1" : "server0";
    CHECK(coded.reads_from(home.path() / disk_folder_name(other) / "tiny_iter_40"));
  }
}

TEST_CASE("damaged parts count as gone, and too many of them are named", "[checkpoint]") {
  const test::TempFolder home;
  const Coded coded(home.path());
  const auto damage = [&](std::size_t file) {
    std::string bytes = bytes_of_file(coded.files[file]);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    put_file(coded.files[file], bytes);
  };
  damage(0);
  put_file(coded.files[3], bytes_of_file(coded.files[3]).substr(1));
  CHECK(coded.reads_from(coded.folder));
  fs::remove(coded.files[5]);
  const auto refused = CheckpointReader::open_to_resume(coded.folder);
  REQUIRE(!refused.has_value());
  CHECK_THAT(refused.error().message,
             Catch::Matchers::Contains(
                 "shard0.safetensors: 4 of its 6 parts are needed and 3 are found; gone "
                 "or damaged: part 0 of server \"server0\", part 3 of server "
                 "\"server0\", part 5 of server \"server2\""));
  // It opens for what only the manifest is needed for.
  const auto opened = CheckpointReader::open(coded.folder);
  REQUIRE(opened.has_value());
  CHECK(opened.value().clock() == Clock(40));
  CHECK(!opened.value().readable().has_value());
  std::vector<float> values(1);
  CHECK(!opened.value().read_values(TableId(0), 0, values).has_value());
}

TEST_CASE("a manifest with impossible parts is refused", "[checkpoint]") {
  const test::TempFolder home;
  const auto refusal = [&](auto&& change) {
    Coded coded(home.path());
    change(coded.maker.manifest);
    const auto parsed = parse_manifest(write_manifest(coded.maker.manifest), "m");
    REQUIRE(!parsed.has_value());
    return parsed.error().message;
  };
  CHECK_THAT(refusal([](pb::CheckpointManifest& m) { m.mutable_coding()->set_data(0); }),
             Catch::Matchers::Contains("0 data and 2 parity parts in blocks of 64 bytes"));
  CHECK_THAT(refusal([](pb::CheckpointManifest& m) { m.mutable_coding()->set_parity(17); }),
             Catch::Matchers::Contains("17 parity parts"));
  CHECK_THAT(refusal([](pb::CheckpointManifest& m) { m.mutable_coding()->set_block_bytes(0); }),
             Catch::Matchers::Contains("blocks of 0 bytes"));
  CHECK_THAT(
      refusal([](pb::CheckpointManifest& m) { m.mutable_files(0)->mutable_parts()->RemoveLast(); }),
      Catch::Matchers::Contains("has 5 parts, not 6"));
  CHECK_THAT(refusal([](pb::CheckpointManifest& m) {
               m.mutable_files(0)->mutable_parts(2)->set_sha256("x");
             }),
             Catch::Matchers::Contains("has no SHA-256"));
}

}  // namespace
}  // namespace taut
