#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "proto/caffe_data.pb.h"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/image_files.hpp"
#include "worker/data/images/image_store.hpp"
#include "worker/data/images/lmdb_file.hpp"
#include "worker/data/images/parse_datum.hpp"

using namespace taut;
using data::Colour;
using data::parse_datum;
using test::TempFolder;

namespace {

caffe::Datum raw_datum(int label) {
  caffe::Datum datum;
  datum.set_channels(1);
  datum.set_height(2);
  datum.set_width(3);
  datum.set_data(std::string("\1\2\3\4\5", 5) + static_cast<char>(label));
  datum.set_label(label);
  return datum;
}

std::string error_of(const std::string& bytes) {
  const auto image =
      parse_datum({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, "record",
                  Colour::kAsStored);
  REQUIRE_FALSE(image.has_value());
  return image.error().message;
}

data::StoredImage image_of(const caffe::Datum& datum) {
  const std::string bytes = datum.SerializeAsString();
  auto image = parse_datum({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                           "record", Colour::kAsStored);
  REQUIRE(image.has_value());
  return std::move(image.value());
}

std::filesystem::path lmdb_of(const TempFolder& folder, int records) {
  auto path = folder.path() / "lmdb";
  auto writer = data::LmdbWriter::create(path);
  REQUIRE(writer.has_value());
  for (int i = 0; i < records; ++i) {
    REQUIRE(writer.value()
                ->add(std::to_string(10000 + i), raw_datum(i).SerializeAsString())
                .has_value());
  }
  REQUIRE(writer.value()->finish().has_value());
  return path;
}

}  // namespace

TEST_CASE("a Datum's bytes, floats and encoded images are read", "[datum]") {
  const auto bytes = image_of(raw_datum(70000));
  CHECK(bytes.shape == data::ImageShape{1, 2, 3});
  CHECK(bytes.label == 70000);
  CHECK(bytes.pixels[4] == 5);

  caffe::Datum floats = raw_datum(1);
  floats.clear_data();
  for (int i = 0; i < 6; ++i) floats.add_float_data(0.5F * static_cast<float>(i));
  CHECK(image_of(floats).floats[3] == 1.5F);

  caffe::Datum encoded;
  encoded.set_encoded(true);
  encoded.set_label(7);
  encoded.set_data(test::png_of(4, 5, false));
  CHECK(image_of(encoded).shape == data::ImageShape{3, 4, 5});
  encoded.set_data(test::jpeg_of(4, 5, true));
  CHECK(image_of(encoded).shape == data::ImageShape{1, 4, 5});
}

TEST_CASE("a Datum that cannot be is refused", "[datum]") {
  CHECK(error_of("\xff\xff\xff") == "record: 3 bytes that are not a Datum");
  const std::string whole = raw_datum(1).SerializeAsString();
  CHECK(error_of(whole.substr(0, whole.size() - 3)).find("record: ") == 0);
  caffe::Datum datum = raw_datum(1);
  datum.set_width(4);
  CHECK(error_of(datum.SerializeAsString()) ==
        "record: a Datum of 1x2x4 needs 8 numbers, and holds 6");
  datum.set_width(-1);
  CHECK(error_of(datum.SerializeAsString()) ==
        "record: an image of 2x0 pixels; 1 to 67108864 are read");
  datum.set_width(2000000000);
  datum.set_height(2000000000);
  CHECK(error_of(datum.SerializeAsString()).find("record: an image of 2000000000x2000000000") == 0);
  datum = raw_datum(1);
  datum.set_channels(0);
  CHECK(error_of(datum.SerializeAsString()) == "record: a Datum of 0 channels");
  datum = raw_datum(1);
  datum.add_float_data(1);
  CHECK(error_of(datum.SerializeAsString()) == "record: a Datum with bytes and floats at once");
  datum = raw_datum(1);
  datum.set_encoded(true);
  CHECK(error_of(datum.SerializeAsString()) == "record: 6 bytes that are neither a JPEG nor a PNG");
}

TEST_CASE("an LMDB's records are in the order of its keys", "[lmdb]") {
  const TempFolder folder;
  const auto path = lmdb_of(folder, 2500);
  const auto store = data::open_lmdb(path, Colour::kAsStored);
  REQUIRE(store.has_value());
  CHECK(store.value()->size() == 2500);
  CHECK(store.value()->shape() == data::ImageShape{1, 2, 3});
  CHECK(store.value()->read(0).value().label == 0);
  CHECK(store.value()->read(1234).value().label == 1234);
  CHECK(store.value()->read(2499).value().pixels[2] == 3);
}

TEST_CASE("keys of an LMDB are in order, however many there are", "[lmdb]") {
  CHECK(data::lmdb_key(0, 1) == "00000000");
  CHECK(data::lmdb_key(42, 100'000'000) == "00000042");
  CHECK(data::lmdb_key(99'999'999, 100'000'000) == "99999999");
  constexpr std::uint64_t kMore = 100'000'001;
  CHECK(data::lmdb_key(0, kMore) == "000000000");
  CHECK(data::lmdb_key(99'999'999, kMore) == "099999999");
  CHECK(data::lmdb_key(99'999'999, kMore) < data::lmdb_key(100'000'000, kMore));
}

TEST_CASE("a record of an LMDB that is no Datum is named", "[lmdb]") {
  const TempFolder folder;
  const auto path = folder.path() / "lmdb";
  auto writer = data::LmdbWriter::create(path);
  REQUIRE(writer.value()->add("a", raw_datum(1).SerializeAsString()).has_value());
  REQUIRE(writer.value()->add("b", "\xff").has_value());
  REQUIRE(writer.value()->finish().has_value());
  const auto store = data::open_lmdb(path, Colour::kAsStored);
  REQUIRE(store.has_value());
  CHECK(store.value()->read(1).error().message ==
        path.string() + ": record 1 (key \"b\"): 1 bytes that are not a Datum");
}

TEST_CASE("other files, empty and truncated LMDBs are refused", "[lmdb]") {
  const TempFolder folder;
  const auto error = [](const std::filesystem::path& path) {
    const auto store = data::open_lmdb(path, Colour::kAsStored);
    REQUIRE_FALSE(store.has_value());
    return store.error().message;
  };
  CHECK(error(folder.path() / "no") ==
        (folder.path() / "no").string() + ": no LMDB: it has no data.mdb");
  std::filesystem::create_directory(folder.path() / "text");
  folder.write("text/data.mdb", std::string(20000, 'x'));
  CHECK(error(folder.path() / "text") ==
        (folder.path() / "text").string() + ": not an LMDB: its meta pages are invalid");

  const auto path = lmdb_of(folder, 300);
  const auto size = std::filesystem::file_size(path / "data.mdb");
  std::filesystem::resize_file(path / "data.mdb", size - 4096);
  CHECK(error(path).find(path.string() + ": truncated: data.mdb has ") == 0);

  const auto empty = folder.path() / "empty";
  REQUIRE(data::LmdbWriter::create(empty).value()->finish().has_value());
  CHECK(error(empty) == empty.string() + ": an LMDB without a record");
  CHECK(data::LmdbWriter::create(empty).error().message ==
        empty.string() + ": exists already; choose another name, or remove it");
}

TEST_CASE("an LMDB whose writing ends early leaves nothing", "[lmdb]") {
  const TempFolder folder;
  const auto path = folder.path() / "lmdb";
  {
    auto writer = data::LmdbWriter::create(path);
    REQUIRE(writer.has_value());
    // Above 1,000, at which records are first committed.
    for (int i = 0; i < 1500; ++i) {
      REQUIRE(writer.value()->add(std::to_string(10000 + i), "record").has_value());
    }
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(data::open_lmdb(lmdb_of(folder, 3), Colour::kAsStored).value()->size() == 3);
}

TEST_CASE("an LMDB of a killed process has no name, and the next writer replaces it", "[lmdb]") {
  const TempFolder folder;
  const auto path = folder.path() / "lmdb";
  const auto draft = folder.path() / "lmdb.part";
  const pid_t killed = fork();
  if (killed == 0) {
    auto writer = data::LmdbWriter::create(path);
    // Above 1,000, at which records are first committed.
    for (int i = 0; writer && i < 1500; ++i) {
      (void)writer.value()->add(std::to_string(10000 + i), "record");
    }
    _exit(writer ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(killed, &status, 0) == killed);
  REQUIRE(status == 0);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(std::filesystem::exists(draft / "data.mdb"));
  CHECK(data::open_lmdb(lmdb_of(folder, 3), Colour::kAsStored).value()->size() == 3);
  CHECK_FALSE(std::filesystem::exists(draft));
}

TEST_CASE("an LMDB has one writer at a time, and takes no folder of another kind", "[lmdb]") {
  const TempFolder folder;
  const auto path = folder.path() / "lmdb";
  {
    const auto writer = data::LmdbWriter::create(path);
    REQUIRE(writer.has_value());
    CHECK(data::LmdbWriter::create(path).error().message ==
          path.string() + ": another process is writing it; wait for it, or choose another name");
  }
  const auto other = folder.write("lmdb.part/data.mdb", "of a user");
  CHECK(data::LmdbWriter::create(path).error().message ==
        path.string() + ".part: exists already; choose another name, or remove it");
  CHECK(std::filesystem::file_size(other) == 9);
}
