#include <zlib.h>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/idx_bytes.hpp"
#include "worker/data/images/idx.hpp"
#include "worker/data/images/image_store.hpp"

using taut::data::open_idx_files;
using taut::data::open_idx_folder;
using taut::data::Part;
using taut::test::idx_images;
using taut::test::idx_labels;
using taut::test::TempFolder;

namespace {

void write_gz(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  CHECK(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
        static_cast<int>(bytes.size()));
  gzclose(file);
}

std::string error_of(const std::filesystem::path& folder, Part part, taut::ErrorCode code) {
  const auto opened = open_idx_folder(folder, part);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == code);
  return opened.error().message;
}

}  // namespace

TEST_CASE("a folder's published names are opened, plain or gzip", "[dataset]") {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(12, 4, 5));
  folder.write("train-labels-idx1-ubyte", idx_labels(12));
  write_gz(folder.path() / "t10k-images-idx3-ubyte.gz", idx_images(3, 4, 5));
  write_gz(folder.path() / "t10k-labels-idx1-ubyte.gz", idx_labels(3));

  const auto train = open_idx_folder(folder.path(), Part::kTrain);
  REQUIRE(train.has_value());
  CHECK(train.value()->size() == 12);
  CHECK(train.value()->shape() == taut::data::ImageShape{1, 4, 5});
  CHECK(train.value()->read(11).value().label == 1);
  CHECK(train.value()->read(2).value().pixels.size() == 20);
  CHECK(train.value()->read(2).value().pixels[3] == 17);

  const auto test = open_idx_folder(folder.path(), Part::kTest);
  REQUIRE(test.has_value());
  CHECK(test.value()->size() == 3);
  CHECK(test.value()->read(1).value().pixels[0] == 7);
}

TEST_CASE("missing data is reported with the way to get it", "[dataset]") {
  const TempFolder folder;
  const std::string advice =
      ": no such data; for Fashion-MNIST run `apt install dataset-fashion-mnist`, for other sets "
      "scripts/get_data";
  const auto absent = folder.path() / "absent";
  CHECK(error_of(absent, Part::kTrain, taut::ErrorCode::kNotFound) == absent.string() + advice);
  folder.write("t10k-images-idx3-ubyte", idx_images(1, 2, 2));
  CHECK(error_of(folder.path(), Part::kTest, taut::ErrorCode::kNotFound) ==
        (folder.path() / "t10k-labels-idx1-ubyte[.gz]").string() + advice);
  const auto one = open_idx_files(absent / "images", absent / "labels");
  REQUIRE_FALSE(one.has_value());
  CHECK(one.error().message == (absent / "images").string() + advice);
}

TEST_CASE("different numbers of labels and images are reported", "[dataset]") {
  const TempFolder folder;
  const auto images = folder.write("train-images-idx3-ubyte", idx_images(4, 2, 2));
  const auto labels = folder.write("train-labels-idx1-ubyte", idx_labels(5));
  CHECK(error_of(folder.path(), Part::kTrain, taut::ErrorCode::kInvalid) ==
        images.string() + " holds 4 images, and " + labels.string() + " holds 5 labels");
}

TEST_CASE("a damaged gzip file is reported", "[dataset]") {
  const TempFolder folder;
  folder.write("train-labels-idx1-ubyte", idx_labels(4));
  const auto images = folder.path() / "train-images-idx3-ubyte.gz";
  write_gz(images, idx_images(4, 2, 2));
  std::filesystem::resize_file(images, std::filesystem::file_size(images) - 9);
  CHECK(error_of(folder.path(), Part::kTrain, taut::ErrorCode::kInvalid)
            .find(images.string() + ": damaged or truncated gzip stream") == 0);
}

TEST_CASE("a gzip file is unpacked no further than its extents say", "[dataset]") {
  const TempFolder folder;
  const auto images = folder.path() / "images.gz";
  write_gz(images, idx_images(1, 2, 2) + std::string(1'000'000, 'x'));
  const auto read = taut::data::read_idx(images, 3);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message == images.string() +
                                    ": has trailing bytes: 1x2x2 elements need 4 bytes after the "
                                    "header, and there are 5 at least");
}

TEST_CASE("an IDX file of more elements than the limit is refused by its extents", "[dataset]") {
  const TempFolder folder;
  const auto images = folder.path() / "images.gz";
  write_gz(images, taut::test::idx_header({1000, 1000, 1000}));
  const auto read = taut::data::read_idx(images, 3, taut::Bytes(999'999'999));
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message == images.string() +
                                    ": 1000x1000x1000 elements need 1000000000 bytes of memory; "
                                    "the limit is 999999999");
}

TEST_CASE("a label beyond the net's classes is reported", "[dataset]") {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte", idx_images(12, 2, 2));
  const auto labels = folder.write("train-labels-idx1-ubyte", idx_labels(12));
  const auto dataset = open_idx_folder(folder.path(), Part::kTrain);
  REQUIRE(dataset.has_value());
  CHECK(dataset.value()->check_labels({.classes = 10, .ignored = {}}).has_value());
  CHECK(dataset.value()->check_labels({.classes = 9, .ignored = 9}).has_value());
  const auto checked = dataset.value()->check_labels({.classes = 9, .ignored = {}});
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().message ==
        labels.string() + ": record 9 has label 9, but the net has 9 classes (0 to 8)");
}
