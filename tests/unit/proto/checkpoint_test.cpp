#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;
using test::bytes_of_file;
using test::CheckpointMaker;
using test::put_file;

std::string refusal_of(const fs::path& folder) {
  const auto opened = CheckpointReader::open_to_resume(folder);
  REQUIRE(!opened.has_value());
  return opened.error().message;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a checkpoint's tables are read whole, however they were cut", "[checkpoint]") {
  const test::TempFolder folder;
  CheckpointMaker maker(40);
  maker.write(folder.path() / "tiny_iter_40");
  const auto opened = CheckpointReader::open_to_resume(folder.path() / "tiny_iter_40");
  REQUIRE(opened.has_value());
  const CheckpointReader& reader = opened.value();
  CHECK(reader.clock() == Clock(40));
  REQUIRE(reader.tables().size() == 2);
  CHECK(reader.find("b")->shape == std::vector<std::int64_t>{2, 2});
  CHECK(reader.find("c") == nullptr);
  CHECK(reader.states_of(TableId(0)) == 1);
  std::vector<float> values(10);
  REQUIRE(reader.read_values(TableId(0), 0, values).has_value());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == maker.value(0, i));
  std::vector<float> across(4);
  REQUIRE(reader.read_state(TableId(0), 0, 4, across).has_value());
  for (std::size_t i = 0; i < across.size(); ++i) CHECK(across[i] == -maker.value(0, 4 + i));
  CHECK(reader.slices_of(TableId(0), 4, 4).size() == 2);
  CHECK(reader.slices_of(TableId(0), 6, 1).size() == 1);
  CHECK(!reader.read_values(TableId(0), 7, across).has_value());
  CHECK(!reader.read_state(TableId(1), 1, 0, across).has_value());
  CHECK(!reader.read_values(TableId(2), 0, across).has_value());
}

TEST_CASE("what was compared with the manifest is what is read, whatever becomes of the files",
          "[checkpoint]") {
  const test::TempFolder folder;
  const fs::path place = folder.path() / "tiny_iter_40";
  CheckpointMaker maker(40);
  maker.write(place);
  const fs::path file = place / "shard0.safetensors";
  const std::string bytes = bytes_of_file(file);
  std::string changed = bytes;
  changed.back() ^= 1;
  std::vector<float> values(10);

  // Another file under its name.
  const auto before = CheckpointReader::open_to_resume(place);
  REQUIRE(before.has_value());
  put_file(folder.path() / "other", changed);
  fs::rename(folder.path() / "other", file);
  REQUIRE(before.value().read_values(TableId(0), 0, values).has_value());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == maker.value(0, i));
  CHECK(holds(refusal_of(place), "its SHA-256 is"));

  // The same file with other bytes, which does not look as if it had been written to.
  put_file(file, bytes);
  const auto opened = CheckpointReader::open_to_resume(place);
  REQUIRE(opened.has_value());
  const auto written = fs::last_write_time(file);
  put_file(file, changed);
  fs::last_write_time(file, written);
  const auto read = opened.value().read_values(TableId(0), 0, values);
  REQUIRE(!read.has_value());
  CHECK(read.error().code == ErrorCode::kMismatch);
  CHECK(holds(read.error().message, file.string() + ": bytes 0 to "));
  put_file(file, bytes);
  CHECK(opened.value().read_values(TableId(0), 0, values).has_value());
}

TEST_CASE("a single file of a checkpoint is compared with the manifest", "[checkpoint]") {
  const test::TempFolder folder;
  const fs::path place = folder.path() / "tiny_iter_40";
  CheckpointMaker(40).write(place);
  const CheckpointReader reader = CheckpointReader::open(place).value();
  CHECK(!reader.open_compared("worker0.safetensors").value().has_value());
  CHECK(reader.open_compared("shard0.safetensors").value().has_value());
  const fs::path file = place / "shard0.safetensors";
  std::string changed = bytes_of_file(file);
  changed.back() ^= 1;
  put_file(file, changed);
  CHECK(holds(reader.open_compared("shard0.safetensors").error().message, "its SHA-256 is"));
  fs::remove(file);
  CHECK(holds(reader.open_compared("shard0.safetensors").error().message, "it is damaged"));
}

TEST_CASE("a folder of checkpoints means the newest one in it", "[checkpoint]") {
  const test::TempFolder folder;
  for (const std::int64_t clock : {90, 100, 20}) {
    CheckpointMaker(clock).write(folder.path() / ("tiny_iter_" + std::to_string(clock)));
  }
  fs::create_directories(folder.path() / "tiny_iter_200.part-1-2");
  CHECK(CheckpointReader::open(folder.path()).value().clock() == Clock(100));
  // With two at one clock, the one that was written last.
  for (const int number : {9, 10}) {
    CheckpointMaker later(100);
    later.manifest.set_unix_time_s(number);
    later.write(folder.path() / ("tiny_iter_100-" + std::to_string(number)));
  }
  CHECK(CheckpointReader::open(folder.path()).value().folder().filename() == "tiny_iter_100-10");
}

TEST_CASE("an unfinished checkpoint is not one", "[checkpoint]") {
  const test::TempFolder folder;
  CheckpointMaker(10).write(folder.path() / "tiny_iter_10");
  fs::remove(folder.path() / "tiny_iter_10" / kManifestName);
  CHECK(holds(refusal_of(folder.path() / "tiny_iter_10"), "holds no whole checkpoint"));
  CHECK(holds(refusal_of(folder.path() / "nowhere"), "is not a folder"));
}

TEST_CASE("damage anywhere in a checkpoint is refused with the file's name", "[checkpoint]") {
  const test::TempFolder folder;
  const fs::path place = folder.path() / "tiny_iter_10";
  CheckpointMaker(10).write(place);
  for (const char* name : {"shard0.safetensors", "shard1.safetensors", kManifestName}) {
    const std::string whole = bytes_of_file(place / name);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 97) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x20);
      put_file(place / name, changed);
      INFO(name << " byte " << at);
      CHECK(holds(refusal_of(place), name));
    }
    for (const std::size_t size : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
      put_file(place / name, whole.substr(0, size));
      INFO(name << " cut to " << size);
      CHECK(holds(refusal_of(place), name));
    }
    put_file(place / name, whole + "x");
    CHECK(holds(refusal_of(place), name));
    fs::remove(place / name);
    CHECK(!CheckpointReader::open_to_resume(place).has_value());
    put_file(place / name, whole);
    CHECK(CheckpointReader::open_to_resume(place).has_value());
  }
}

TEST_CASE("in the place of a damaged checkpoint the whole one before it is offered",
          "[checkpoint]") {
  const test::TempFolder folder;
  const auto place = [&](int clock) {
    return folder.path() / ("tiny_iter_" + std::to_string(clock));
  };
  for (const int clock : {10, 20, 30, 40}) CheckpointMaker(clock).write(place(clock));
  put_file(place(20) / "shard0.safetensors", "short");
  std::string manifest = bytes_of_file(place(30) / kManifestName);
  manifest[manifest.size() / 2] ^= 1;
  put_file(place(30) / kManifestName, manifest);
  // The one before 30 is damaged too; 40 is newer.
  const std::string refusal = refusal_of(place(30));
  CHECK(holds(refusal, "manifest.textproto: its checksum does not match"));
  CHECK(holds(refusal, "the one before it, tiny_iter_10, is whole"));
  CHECK(holds(refusal, "--resume " + place(10).string()));
  // A folder means its newest one, and damage of that one is reported.
  fs::remove_all(place(40));
  CHECK(holds(refusal_of(folder.path()), "tiny_iter_30/manifest.textproto"));
  CHECK(holds(refusal_of(folder.path()), "tiny_iter_10, is whole"));
  fs::remove_all(place(10));
  CHECK(!holds(refusal_of(place(30)), "is whole"));
}

TEST_CASE("a manifest that contradicts itself is refused", "[checkpoint]") {
  const auto error_of = [](const pb::CheckpointManifest& manifest) {
    const auto parsed = parse_manifest(write_manifest(manifest), "m");
    return parsed ? std::string() : parsed.error().message;
  };
  CheckpointMaker maker(5);
  pb::CheckpointFile& file = *maker.manifest.add_files();
  file.set_name("shard0.safetensors");
  file.set_sha256(std::string(64, '0'));
  CHECK(error_of(maker.manifest).empty());

  pb::CheckpointManifest changed = maker.manifest;
  changed.set_format(3);
  CHECK(holds(error_of(changed), "has format 3, this release reads 1 to 2"));
  for (const char* name : {"", "..", "a/b", "../shard0.safetensors"}) {
    changed = maker.manifest;
    changed.mutable_files(0)->set_name(name);
    CHECK(holds(error_of(changed), "is not a file's name"));
  }
  changed = maker.manifest;
  changed.mutable_files(0)->set_sha256("0123");
  CHECK(holds(error_of(changed), "has no SHA-256"));
  changed = maker.manifest;
  changed.mutable_tables(1)->set_name("a");
  CHECK(holds(error_of(changed), "or occurs twice"));
  changed = maker.manifest;
  for (int i = 0; i < 4; ++i) changed.mutable_tables(0)->add_shape(1LL << 40U);
  CHECK(holds(error_of(changed), "more than the limit of"));
  changed = maker.manifest;
  changed.mutable_members(1)->set_slot(2);
  CHECK(holds(error_of(changed), "share 2 of 2"));
  changed = maker.manifest;
  changed.set_clock(-1);
  CHECK(holds(error_of(changed), "clock -1"));
  CHECK(holds(error_of(pb::CheckpointManifest()), "has format 0"));

  changed = maker.manifest;
  changed.mutable_coding()->set_data(2);
  changed.mutable_coding()->set_parity(1);
  changed.mutable_coding()->set_block_bytes(4096);
  for (int i = 0; i < 3; ++i) {
    changed.mutable_files(0)->add_parts()->set_sha256(std::string(64, '0'));
  }
  // Two tebibytes.
  changed.mutable_files(0)->set_bytes(2ULL << 40U);
  CHECK(error_of(changed).empty());
  changed.mutable_files(0)->set_bytes(2ULL << 50U);
  CHECK(holds(error_of(changed), "has 2251799813685248 bytes; the limit is"));
  changed.mutable_files(0)->set_bytes(5);
  changed.mutable_coding()->set_parity(2);
  CHECK(holds(error_of(changed), "has 3 parts, not 4"));
}

TEST_CASE("a checkpoint that exists and cannot be read is not one that does not exist",
          "[checkpoint]") {
  const test::TempFolder folder;
  CHECK(CheckpointReader::open_to_resume(folder.path()).error().code == ErrorCode::kNotFound);
  CheckpointMaker maker(5);
  const fs::path place = folder.path() / "tiny_iter_5";
  maker.write(place);
  const std::string whole = bytes_of_file(place / kManifestName);
  fs::remove(place / "shard1.safetensors");
  CHECK(CheckpointReader::open_to_resume(folder.path()).error().code == ErrorCode::kInvalid);
  // In parts, of which none is here.
  pb::CheckpointManifest coded = parse_manifest(whole, "m").value();
  coded.mutable_coding()->set_data(1);
  coded.mutable_coding()->set_parity(1);
  coded.mutable_coding()->set_block_bytes(4096);
  for (pb::CheckpointFile& file : *coded.mutable_files()) {
    for (int i = 0; i < 2; ++i) file.add_parts()->set_sha256(std::string(64, '0'));
  }
  const std::string text = write_manifest(coded);
  put_file(place / kManifestName, text);
  const auto missing = CheckpointReader::open_to_resume(folder.path());
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code == ErrorCode::kUnavailable);
  CHECK(holds(missing.error().message, "1 of its 2 parts are needed and 0 are found"));
  // A look at the manifest needs no part, and no read of tables without them ends the process.
  const auto found = find_saved(folder.path());
  REQUIRE(found.has_value());
  CHECK(found.value().manifest.clock() == 5);
  CHECK(found.value().manifest_sha256.size() == 64);
  const auto opened = CheckpointReader::open(place);
  REQUIRE(opened.has_value());
  std::vector<float> values(2);
  CHECK(opened.value().read_values(TableId(0), 0, values).error().code == ErrorCode::kUnavailable);
  CHECK(opened.value().read_state(TableId(0), 0, 0, values).error().code ==
        ErrorCode::kUnavailable);
}

TEST_CASE("to submit a job no file of a checkpoint is read as a whole, and damage is reported",
          "[checkpoint]") {
  const test::TempFolder folder;
  for (const int clock : {10, 20}) {
    CheckpointMaker(clock).write(folder.path() / ("tiny_iter_" + std::to_string(clock)));
  }
  const fs::path part = folder.path() / "tiny_iter_20" / "shard0.safetensors";
  std::string bytes = bytes_of_file(part);
  bytes.back() ^= 1;
  put_file(part, bytes);
  CHECK(find_saved(folder.path()).value().folder == folder.path() / "tiny_iter_20");
  CHECK(!CheckpointReader::open_to_resume(folder.path()).has_value());
  put_file(part, bytes.substr(1));
  const auto damaged = find_saved(folder.path());
  REQUIRE(!damaged.has_value());
  CHECK(holds(damaged.error().message, "tiny_iter_10, is whole: --resume"));
}

TEST_CASE("slices that overlap, leave a hole or are beyond their table are refused",
          "[checkpoint]") {
  const test::TempFolder folder;
  const auto refusal_with = [&](const std::function<void(CheckpointMaker&)>& change) {
    CheckpointMaker maker(5);
    change(maker);
    maker.write(folder.path() / "x");
    return refusal_of(folder.path() / "x");
  };
  CHECK(holds(refusal_with([](auto& maker) { maker.slices.pop_back(); }),
              "table \"a\" of 10 elements is not whole from element 6 on"));
  CHECK(holds(refusal_with([](auto& maker) { maker.slices[1][0].set_offset(5); }),
              "is not whole from element 6 on"));
  CHECK(holds(refusal_with([](auto& maker) { maker.slices[1][0].set_count(5); }), "cannot be"));
  CHECK(holds(refusal_with([](auto& maker) { maker.slices[1].push_back(maker.slices[0][1]); }),
              "occurs twice"));
  CHECK(holds(refusal_with([](auto& maker) { maker.slices[1][0].set_states(2); }), "is missing"));
}

}  // namespace
}  // namespace taut
