#include <algorithm>

#include "worker/data/convert_images.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/data/image_files.hpp"
#include "tests/unit/data/stores.hpp"
#include "worker/data/transform.hpp"

using namespace taut;
using test::Numbers;
using test::TempFolder;

TEST_CASE("a store is read back from its LMDB, and its mean from the file", "[convert]") {
  const TempFolder folder;
  const Numbers numbers;
  const data::ConvertOptions options{
      .lmdb = folder.path() / "lmdb", .mean = folder.path() / "mean", .skip_corrupt = false};
  const auto done = data::convert(numbers, options);
  REQUIRE(done.has_value());
  CHECK(done.value().images == Numbers::kImages);
  CHECK(done.value().shape == numbers.shape());

  const auto store = data::open_images(options.lmdb, data::Part::kTrain, {});
  REQUIRE(store.has_value());
  REQUIRE(store.value()->size() == Numbers::kImages);
  std::vector<double> sums(12, 0.0);
  for (std::uint64_t i = 0; i < Numbers::kImages; ++i) {
    const auto read = store.value()->read(i);
    const auto expected = numbers.read(i);
    REQUIRE(read.has_value());
    CHECK(read.value().label == expected.value().label);
    CHECK(std::equal(read.value().pixels.begin(), read.value().pixels.end(),
                     expected.value().pixels.begin()));
    for (std::size_t p = 0; p < 12; ++p) sums[p] += expected.value().pixels[p];
  }
  const auto mean = data::read_mean(options.mean);
  REQUIRE(mean.has_value());
  for (std::size_t p = 0; p < 12; ++p) {
    CHECK(mean.value().values[p] == Approx(sums[p] / Numbers::kImages));
  }
}

TEST_CASE("a list with a bad image ends the conversion, or is skipped and counted", "[convert]") {
  const TempFolder folder;
  folder.write("a.png", test::png_of(4, 4, true));
  folder.write("b.png", "no image");
  folder.write("c.png", test::png_of(4, 4, true));
  const auto list = folder.write("list", "a.png 0\nb.png 1\nc.png 2\n");
  data::ImageListOptions images;
  images.root = folder.path();
  images.colour = data::Colour::kGray;
  const auto store = data::open_images(list, data::Part::kTrain, images);
  REQUIRE(store.has_value());
  data::ConvertOptions options;
  options.mean = folder.path() / "mean";
  CHECK(data::convert(*store.value(), options).error().message.find("record 1: ") !=
        std::string::npos);
  options.skip_corrupt = true;
  const auto done = data::convert(*store.value(), options);
  REQUIRE(done.has_value());
  CHECK(done.value().images == 2);
  CHECK(done.value().skipped == 1);
}

TEST_CASE("images of several sizes have no mean", "[convert]") {
  const TempFolder folder;
  folder.write("a.png", test::png_of(4, 4, true));
  folder.write("b.png", test::png_of(4, 5, true));
  const auto list = folder.write("list", "a.png 0\nb.png 1\n");
  data::ImageListOptions images;
  images.root = folder.path();
  images.colour = data::Colour::kGray;
  const auto store = data::open_images(list, data::Part::kTrain, images);
  data::ConvertOptions options;
  options.mean = folder.path() / "mean";
  CHECK(data::convert(*store.value(), options).error().message ==
        "record 1 is of 1x4x5, and those before of 1x4x4: a mean needs images of one size; resize "
        "them");
}
