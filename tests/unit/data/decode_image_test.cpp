#include "worker/data/decode_image.hpp"

#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/unit/data/image_files.hpp"

using namespace taut;
using data::Colour;
using data::decode_image;
using data::DecodedImage;

namespace {

std::span<const std::uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

DecodedImage decoded(const std::string& file, Colour colour = Colour::kAsStored) {
  auto image = decode_image(bytes_of(file), "image", colour);
  REQUIRE(image.has_value());
  return std::move(image.value());
}

std::string error_of(const std::string& file) {
  const auto image = decode_image(bytes_of(file), "image", Colour::kColour);
  REQUIRE_FALSE(image.has_value());
  return image.error().message;
}

}  // namespace

TEST_CASE("a PNG comes out as planes of blue, green and red", "[decode]") {
  const DecodedImage image = decoded(test::png_of(3, 5, false));
  REQUIRE(image.shape == data::ImageShape{3, 3, 5});
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 5; ++column) {
      CHECK(image.pixels[row * 5 + column] == 200);
      CHECK(image.pixels[15 + row * 5 + column] == column);
      CHECK(image.pixels[30 + row * 5 + column] == row);
    }
  }
}

TEST_CASE("a JPEG comes out as the pixels that went in, within its loss", "[decode]") {
  const DecodedImage image = decoded(test::jpeg_of(16, 24, false));
  REQUIRE(image.shape == data::ImageShape{3, 16, 24});
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 24; ++column) {
      const std::size_t at = row * 24 + column;
      CHECK(std::abs(int{image.pixels[at]} - 200) <= 4);
      CHECK(std::abs(int{image.pixels[2 * 16 * 24 + at]} - static_cast<int>(row)) <= 4);
    }
  }
}

TEST_CASE("colour and gray are made of each other", "[decode]") {
  for (const auto& make : {test::png_of, test::jpeg_of}) {
    CHECK(decoded(make(8, 8, true)).shape.channels == 1);
    CHECK(decoded(make(8, 8, true), Colour::kColour).shape.channels == 3);
    CHECK(decoded(make(8, 8, false)).shape.channels == 3);
    CHECK(decoded(make(8, 8, false), Colour::kGray).shape.channels == 1);
  }
}

TEST_CASE("an image that was cut anywhere is refused", "[decode]") {
  // What stands behind a PNG's pixels (checksums and its end) is not needed for them.
  const std::pair<std::string, std::size_t> files[] = {{test::png_of(9, 7, false), 24},
                                                       {test::jpeg_of(9, 7, false), 2}};
  for (const auto& [file, behind] : files) {
    for (std::size_t size = 0; size < file.size() - behind; ++size) {
      INFO(size);
      CHECK(error_of(file.substr(0, size)).find("image: ") == 0);
    }
  }
}

TEST_CASE("what is no image, and one of a hostile size, are refused", "[decode]") {
  CHECK(error_of("GIF89a") == "image: 6 bytes that are neither a JPEG nor a PNG");
  std::string png = test::png_of(2, 2, true);
  png[16] = '\x7f';  // the width's highest byte; the checksum no longer fits either
  CHECK(error_of(png).find("image: ") == 0);
  std::string jpeg = test::jpeg_of(2, 2, true);
  const std::size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  for (std::size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\x7f';  // both sides: 32,639
  CHECK(error_of(jpeg) == "image: an image of 32639x32639 pixels; 1 to 67108864 are read");
}

TEST_CASE("a resized image keeps its ramps and its constants", "[decode]") {
  const DecodedImage image = decoded(test::png_of(4, 4, true));
  CHECK(data::resize(image, 4, 4).pixels == image.pixels);
  const DecodedImage small = data::resize(image, 2, 2);
  REQUIRE(small.shape == data::ImageShape{1, 2, 2});
  // Each new pixel lies between four old ones: (0 + 1 + 10 + 11) / 4 = 5.5, rounded up.
  CHECK(small.pixels == std::vector<std::uint8_t>{6, 8, 26, 28});
  const DecodedImage large = data::resize(image, 8, 8);
  CHECK(large.pixels.front() == 0);
  CHECK(large.pixels.back() == 33);
}
