#include "worker/data/transform.hpp"

#include <initializer_list>
#include <limits>
#include <set>

#include "proto/caffe_data.pb.h"
#include "tests/support/catch.hpp"

using namespace taut;
using data::ImageShape;
using data::ImageTransform;
using data::MeanImage;
using data::RecordDraw;
using data::Transform;

namespace {

/// Two channels, 4 x 5; pixel (c, y, x) is 100 c + 10 y + x.
data::StoredImage sample() {
  data::StoredImage image;
  image.shape = {2, 4, 5};
  for (int c = 0; c < 2; ++c) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 5; ++x) {
        image.decoded.push_back(static_cast<std::uint8_t>(100 * c + 10 * y + x));
      }
    }
  }
  image.pixels = image.decoded;
  return image;
}

std::vector<float> apply(const Transform& transform, std::uint32_t place = 0) {
  const auto image = sample();
  const auto image_transform = ImageTransform::create(transform, image.shape);
  REQUIRE(image_transform.has_value());
  std::vector<float> out(image_transform.value().shape().pixels());
  REQUIRE(image_transform.value().apply(image, RecordDraw(5, Clock(3), place), out).has_value());
  return out;
}

std::string error_of(const Transform& transform) {
  const auto image_transform = ImageTransform::create(transform, {2, 4, 5});
  REQUIRE_FALSE(image_transform.has_value());
  return image_transform.error().message;
}

MeanImage mean_of(const ImageShape& shape) {
  return {shape, std::vector<float>(shape.pixels(), 2)};
}

template <class Change>
std::string mean_error(const Change& change) {
  caffe::MeanBlob blob;
  REQUIRE(blob.ParseFromString(to_mean_file(mean_of({2, 3, 4}))));
  change(blob);
  const auto mean = data::parse_mean(blob.SerializeAsString(), "m");
  REQUIRE_FALSE(mean.has_value());
  return mean.error().message;
}

}  // namespace

TEST_CASE("testing crops the centre", "[transform]") {
  Transform transform;
  transform.crop = 2;
  CHECK(apply(transform) == std::vector<float>{11, 12, 21, 22, 111, 112, 121, 122});
}

TEST_CASE("training crops anywhere, all channels equally, each place differently", "[transform]") {
  Transform transform;
  transform.crop = 2;
  transform.random_crop = true;
  std::set<float> corners;
  for (std::uint32_t place = 0; place < 200; ++place) {
    const auto out = apply(transform, place);
    CHECK(out == apply(transform, place));
    CHECK(out[1] == out[0] + 1);
    CHECK(out[2] == out[0] + 10);
    CHECK(out[4] == out[0] + 100);
    corners.insert(out[0]);
  }
  CHECK(corners == std::set<float>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
}

TEST_CASE("mirroring turns about half of the images around", "[transform]") {
  Transform transform;
  transform.mirror = true;
  int mirrored = 0;
  for (std::uint32_t place = 0; place < 400; ++place) {
    const auto out = apply(transform, place);
    if (out[0] == 0) continue;
    ++mirrored;
    CHECK(std::vector<float>(out.begin(), out.begin() + 5) == std::vector<float>{4, 3, 2, 1, 0});
  }
  CHECK(mirrored > 160);
  CHECK(mirrored < 240);
}

TEST_CASE("a mean image is subtracted at the crop's place", "[transform]") {
  Transform transform;
  transform.scale = 2;
  transform.crop = 2;
  transform.mean_image = mean_of({2, 4, 5});
  transform.mean_image->values[1 * 5 + 2] = 10;
  CHECK(apply(transform) == std::vector<float>{18, 4, 38, 40, 218, 220, 238, 240});
}

TEST_CASE("a transform that does not fit is reported", "[transform]") {
  Transform crop;
  crop.crop = 5;
  CHECK(error_of(crop) == "crop_size 5 does not fit an image of 2x4x5");
  Transform mean;
  mean.mean_image = mean_of({2, 4, 4});
  CHECK(error_of(mean) == "the mean file is of 2x4x4, and the image of 2x4x5");
  mean.mean = {1};
  CHECK(error_of(mean) == "mean_value and mean_file are both given: use one of them");
  const auto whole = ImageTransform::create({}, {2, 4, 6});
  std::vector<float> out(48);
  CHECK(whole.value().apply(sample(), RecordDraw(1, Clock(0), 0), out).error().message ==
        "is of 2x4x5, and the first image of 2x4x6: give crop_size, or resize them");
}

TEST_CASE("a mean file is read as it was written", "[transform]") {
  MeanImage mean = mean_of({2, 3, 4});
  mean.values[5] = 0.25F;
  const auto read = data::parse_mean(to_mean_file(mean), "m");
  REQUIRE(read.has_value());
  CHECK(read.value().shape == mean.shape);
  CHECK(read.value().values == mean.values);
}

TEST_CASE("a mean file that cannot be is refused", "[transform]") {
  CHECK(data::parse_mean("\xff\xff", "m").error().message == "m: 2 bytes that are not a mean file");
  CHECK(mean_error([](auto& blob) { blob.set_height(5); }) ==
        "m: a mean of 2x5x4 needs 40 numbers, and holds 24");
  CHECK(mean_error([](auto& blob) { blob.set_height(-3); }) ==
        "m: a mean of extents 1x2x-3x4; 1 x channels x height x width is required");
  CHECK(mean_error([](auto& blob) { blob.set_num(2); }) ==
        "m: a mean of extents 2x2x3x4; 1 x channels x height x width is required");
  CHECK(mean_error([](auto& blob) { blob.set_data(3, std::numeric_limits<float>::infinity()); }) ==
        "m: holds a mean that is not finite");
}

TEST_CASE("a mean file that is cut anywhere is refused", "[transform]") {
  const std::string whole = to_mean_file(mean_of({2, 3, 4}));
  REQUIRE(data::parse_mean(whole, "m").has_value());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    const auto mean = data::parse_mean(whole.substr(0, size), "m");
    REQUIRE_FALSE(mean.has_value());
    CHECK(mean.error().message.find("m: ") == 0);
  }
}

TEST_CASE("a mean file of a hostile size is refused", "[transform]") {
  const auto shaped = [](std::initializer_list<std::int64_t> extents) {
    return mean_error([&](auto& blob) {
      for (const std::int64_t extent : extents) blob.mutable_shape()->add_dim(extent);
    });
  };
  CHECK(shaped({1 << 20, 1 << 20, 1 << 20}) ==
        "m: a mean of 1048576x1048576x1048576 needs 1152921504606846976 numbers, and holds 24");
  // 2^62 + 6 numbers of 4 bytes each are 24 bytes where 64 bits overflow.
  CHECK(shaped({1, 1, (std::int64_t{1} << 62) + 6}) ==
        "m: a mean of extents 1x1x4611686018427387910; 1 x channels x height x width is required");
  CHECK(shaped({1, 1, std::numeric_limits<std::int64_t>::min(), 1}).find("m: a mean of extents ") ==
        0);
  CHECK(mean_error([](auto& blob) { blob.set_width(std::numeric_limits<int>::max()); }) ==
        "m: a mean of extents 1x2x3x2147483647; 1 x channels x height x width is required");
  // Its numbers' length, 2^30 - 1 bytes, goes beyond the file.
  CHECK(data::parse_mean("\x2a\xff\xff\xff\xff\x03", "m").error().message ==
        "m: 6 bytes that are not a mean file");
}
