#include "worker/data/open_source.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/stores.hpp"
#include "worker/data/convert_images.hpp"
#include "worker/data/images/folder_kind.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;
using test::Numbers;
using test::TempFolder;

pb::LayerParameter data_layer(pb::DataParameter::DB backend) {
  pb::LayerParameter layer;
  layer.set_name("mnist");
  layer.set_type("Data");
  layer.mutable_data_param()->set_backend(backend);
  return layer;
}

/// What a LevelDB that has been closed leaves.
void write_leveldb(const fs::path& folder) {
  fs::create_directories(folder);
  const TempFolder source;
  for (const char* name : {"CURRENT", "LOCK", "LOG", "MANIFEST-000002", "000003.log"}) {
    fs::copy_file(source.write("file", "bytes"), folder / name);
  }
}

}  // namespace

TEST_CASE("a folder with an LMDB is opened as one, with any backend setting", "[source]") {
  const TempFolder folder;
  const fs::path lmdb = folder.path() / "train_leveldb";
  REQUIRE(convert(Numbers(), {.lmdb = lmdb, .mean = {}, .skip_corrupt = false}).has_value());
  for (const auto backend :
       {pb::DataParameter::LEVELDB, pb::DataParameter::LMDB, pb::DataParameter::IDX}) {
    const auto source = open_source(data_layer(backend), {lmdb.string(), "", ""}, Part::kTrain);
    INFO((source ? std::string() : source.error().message));
    REQUIRE(source.has_value());
    CHECK(source.value()->size() == Numbers::kImages);
    CHECK(peek_fields(data_layer(backend), {lmdb.string(), "", ""}, Part::kTrain).has_value());
  }
}

TEST_CASE("a LevelDB is refused with a remedy, with any backend setting", "[source]") {
  const TempFolder folder;
  const fs::path leveldb = folder.path() / "train_lmdb";
  write_leveldb(leveldb);
  const std::string refusal =
      leveldb.string() +
      ": is a LevelDB, which is not supported: convert its images to an LMDB with "
      "tautline convert, or name another data set with the job's data { folder: ... }, or with "
      "--data";
  for (const auto backend : {pb::DataParameter::LEVELDB, pb::DataParameter::LMDB}) {
    const auto source = open_source(data_layer(backend), {leveldb.string(), "", ""}, Part::kTrain);
    REQUIRE_FALSE(source.has_value());
    CHECK(source.error().message == refusal);
    CHECK_FALSE(
        peek_fields(data_layer(backend), {leveldb.string(), "", ""}, Part::kTrain).has_value());
  }
  const auto store = open_images(leveldb, Part::kTrain, {});
  REQUIRE_FALSE(store.has_value());
  CHECK(store.error().message == refusal);
}

TEST_CASE("a folder's files determine its kind", "[source]") {
  const TempFolder folder;
  CHECK(kind_of(folder.path()) == FolderKind::kOther);
  CHECK(kind_of(folder.path() / "none") == FolderKind::kOther);
  CHECK(kind_of(folder.write("a file", "")) == FolderKind::kOther);
  folder.write("CURRENT", "");
  CHECK(kind_of(folder.path()) == FolderKind::kOther);
  folder.write("MANIFEST-000001", "");
  CHECK(kind_of(folder.path()) == FolderKind::kLevelDb);
  folder.write("t10k-images-idx3-ubyte.gz", "");
  CHECK(kind_of(folder.path()) == FolderKind::kIdx);
  folder.write("test_batch.bin", "");
  CHECK(kind_of(folder.path()) == FolderKind::kCifar10);
  folder.write("data.mdb", "");
  CHECK(kind_of(folder.path()) == FolderKind::kLmdb);
}

}  // namespace taut::data
