#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/image_files.hpp"
#include "worker/data/images/image_store.hpp"
#include "worker/data/images/parse_cifar10.hpp"

using namespace taut;
using data::Part;
using test::TempFolder;

namespace {

/// Records whose label and first pixel are their number.
std::string cifar_batch(int first, int records) {
  std::string bytes;
  for (int i = first; i < first + records; ++i) {
    std::string record(data::kCifar10RecordBytes, '\0');
    record[0] = static_cast<char>(i % 10);
    record[1] = static_cast<char>(i);
    bytes += record;
  }
  return bytes;
}

template <class T>
std::string error_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().message;
}

}  // namespace

TEST_CASE("CIFAR-10's batches follow each other", "[cifar10]") {
  const TempFolder folder;
  folder.write("data_batch_1.bin", cifar_batch(0, 3));
  folder.write("data_batch_3.bin", cifar_batch(3, 4));
  folder.write("test_batch.bin", cifar_batch(20, 2));
  const auto train = data::open_cifar10(folder.path(), Part::kTrain);
  REQUIRE(train.has_value());
  CHECK(train.value()->size() == 7);
  CHECK(train.value()->shape() == data::ImageShape{3, 32, 32});
  for (std::uint64_t i = 0; i < 7; ++i) {
    CHECK(train.value()->read(i).value().label == static_cast<std::int64_t>(i));
    CHECK(train.value()->read(i).value().pixels[0] == i);
    CHECK(train.value()->read(i).value().pixels.size() == 3072);
  }
  CHECK(data::open_cifar10(folder.path(), Part::kTest).value()->size() == 2);
  CHECK(error_of(train.value()->check_labels({.classes = 5, .ignored = {}})) ==
        (folder.path() / "data_batch_3.bin").string() +
            ": record 2 has label 5, but the net has 5 classes (0 to 4)");
}

TEST_CASE("files that are not CIFAR-10's are refused", "[cifar10]") {
  const TempFolder folder;
  CHECK(error_of(data::open_cifar10(folder.path(), Part::kTest)) ==
        folder.path().string() +
            ": no CIFAR-10 test batches; scripts/get_data cifar10 fetches them");
  const std::string batch = cifar_batch(0, 2);
  CHECK(error_of(data::parse_cifar10(batch.substr(1), "f")) ==
        "f: 6145 bytes are not a whole number of CIFAR-10's records of 3073");
  CHECK(error_of(data::parse_cifar10("", "f")).find("f: 0 bytes are not a whole") == 0);
  // CIFAR-100's records have two labels: the first one's pixels are read as a label.
  std::string other = batch;
  other[data::kCifar10RecordBytes] = 77;
  CHECK(error_of(data::parse_cifar10(other, "f")) ==
        "f: record 1 has label 77; CIFAR-10 has 0 to 9: is this its binary version?");
}

TEST_CASE("a list of images is read with its labels, resized", "[image-list]") {
  const TempFolder folder;
  folder.write("a b.png", test::png_of(4, 6, false));
  folder.write("c.jpg", test::jpeg_of(8, 8, true));
  const auto list = folder.write("list.txt", "a b.png 3\r\n\nc.jpg   100000\n");
  data::ImageListOptions options;
  options.root = folder.path();
  options.height = 5;
  options.width = 7;
  const auto store = data::open_image_list(list, options);
  REQUIRE(store.has_value());
  CHECK(store.value()->size() == 2);
  CHECK(store.value()->shape() == data::ImageShape{3, 5, 7});
  CHECK(store.value()->read(0).value().label == 3);
  CHECK(store.value()->read(1).value().label == 100000);
  CHECK(store.value()->read(1).value().pixels.size() == 3 * 5 * 7);
}

TEST_CASE("a folder's folders are the classes", "[image-list]") {
  const TempFolder folder;
  for (const char* name : {"cats", "ants"}) std::filesystem::create_directory(folder.path() / name);
  folder.write("cats/1.png", test::png_of(2, 2, true));
  folder.write("ants/9.png", test::png_of(2, 2, true));
  folder.write("ants/8.png", test::png_of(2, 2, true));
  const auto store = data::open_image_list(folder.path(), {});
  REQUIRE(store.has_value());
  REQUIRE(store.value()->size() == 3);
  CHECK(store.value()->read(0).value().label == 0);
  CHECK(store.value()->read(2).value().label == 1);
  CHECK(error_of(store.value()->check_labels({.classes = 1, .ignored = {}}))
            .find("record 2 has label 1") != std::string::npos);
}

TEST_CASE("a folder of classes with a link that leads nowhere is refused", "[image-list]") {
  const TempFolder folder;
  folder.write("ants/1.png", test::png_of(2, 2, true));
  folder.write("cats/1.png", test::png_of(2, 2, true));
  const auto link = folder.path() / "bees";
  std::filesystem::create_symlink(folder.path() / "absent", link);
  CHECK(error_of(data::open_image_list(folder.path(), {})) ==
        link.string() + ": cannot be read: No such file or directory");
  // A class may be a link, and one image that cannot be read moves no label.
  std::filesystem::create_directory(folder.path() / "absent");
  std::filesystem::create_symlink("nowhere", folder.path() / "ants/2.png");
  const auto store = data::open_image_list(folder.path(), {});
  REQUIRE(store.has_value());
  REQUIRE(store.value()->size() == 3);
  CHECK(store.value()->read(2).value().label == 3);
  CHECK(error_of(store.value()->read(1)).find("ants/2.png") != std::string::npos);
}

TEST_CASE("a list that cannot work is refused", "[image-list]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text) {
    return error_of(data::open_image_list(folder.write("list", text), {}));
  };
  const std::string list = (folder.path() / "list").string();
  CHECK(refused("").find(list + ": names no image") == 0);
  CHECK(refused("a.png 1\nb.png\n") ==
        list + ":2: \"b.png\" is not a path followed by a whole number");
  CHECK(refused("a.png x\n") == list + ":1: \"a.png x\" is not a path followed by a whole number");
  CHECK(refused(" 7\n") == list + ":1: \" 7\" is not a path followed by a whole number");
  CHECK(refused("/no/such.png 1\n").find(list + ": record 0: ") == 0);
  CHECK(error_of(data::open_image_list(folder.path() / "absent", {})).find("no such list") !=
        std::string::npos);
}
