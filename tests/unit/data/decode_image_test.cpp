#include "worker/data/images/decode_image.hpp"

#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/unit/data/idx_bytes.hpp"
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

/// With another size in its header, whose checksum is right.
std::string png_claiming(std::uint32_t height, std::uint32_t width) {
  constexpr std::size_t kType = 12, kWidth = 16, kHeight = 20, kChecksum = 29;  // of the header
  std::string png = test::png_of(2, 2, true);
  png.replace(kWidth, 4, test::big_endian(width));
  png.replace(kHeight, 4, test::big_endian(height));
  std::uint32_t sum = ~0U;  // CRC-32, bit by bit
  for (std::size_t i = kType; i < kChecksum; ++i) {
    sum ^= static_cast<std::uint8_t>(png[i]);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1U ^ ((sum & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return png.replace(kChecksum, 4, test::big_endian(~sum));
}

std::string jpeg_claiming(std::uint16_t height, std::uint16_t width) {
  std::string jpeg = test::jpeg_of(2, 2, true);
  const std::size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  return jpeg.replace(frame + 5, 4, test::big_endian(std::uint32_t{height} << 16U | width));
}

std::string error_of(const std::string& file) {
  const auto image = decode_image(bytes_of(file), "image", Colour::kColour);
  REQUIRE_FALSE(image.has_value());
  return image.error().message;
}

}  // namespace

TEST_CASE("a PNG is decoded to planes of blue, green and red", "[decode]") {
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

TEST_CASE("a JPEG is decoded to the original pixels, within its loss", "[decode]") {
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

TEST_CASE("colour and gray are converted to each other", "[decode]") {
  for (const auto& make : {test::png_of, test::jpeg_of}) {
    CHECK(decoded(make(8, 8, true)).shape.channels == 1);
    CHECK(decoded(make(8, 8, true), Colour::kColour).shape.channels == 3);
    CHECK(decoded(make(8, 8, false)).shape.channels == 3);
    CHECK(decoded(make(8, 8, false), Colour::kGray).shape.channels == 1);
  }
}

TEST_CASE("a PNG and a JPEG that are cut anywhere are refused", "[decode]") {
  // What is behind a PNG's pixels (checksums and its end) is not needed for them.
  const std::pair<std::string, std::size_t> files[] = {{test::png_of(9, 7, false), 24},
                                                       {test::jpeg_of(9, 7, false), 2}};
  for (const auto& [file, behind] : files) {
    for (std::size_t size = 0; size < file.size() - behind; ++size) {
      INFO(size);
      CHECK(error_of(file.substr(0, size)).find("image: ") == 0);
    }
  }
}

TEST_CASE("other bytes than images are refused", "[decode]") {
  CHECK(error_of("GIF89a") == "image: 6 bytes that are neither a JPEG nor a PNG");
}

TEST_CASE("a PNG of a hostile size is refused before memory is allocated", "[decode]") {
  REQUIRE(png_claiming(2, 2) == test::png_of(2, 2, true));
  CHECK(error_of(png_claiming(100'000, 90'000)) ==
        "image: an image of 100000x90000 pixels; 1 to 67108864 are read");
  CHECK(error_of(png_claiming(1, 67'108'865)).find("image: ") == 0);
  // libpng itself refuses these.
  const std::pair<std::uint32_t, std::uint32_t> sides[] = {
      {2, 0x7FFFFFFF}, {0x7FFFFFFF, 0x7FFFFFFF}, {2, 0xFFFFFFFF}, {0, 2}, {2, 0}};
  for (const auto& [height, width] : sides) {
    INFO(height << " x " << width);
    CHECK(error_of(png_claiming(height, width)).find("image: damaged PNG: ") == 0);
  }
  // More rows than there are pixels for.
  CHECK(error_of(png_claiming(200, 2)).find("image: damaged PNG: ") == 0);
  std::string unchecked = test::png_of(2, 2, true);
  unchecked[16] = '\x7f';  // the checksum no longer fits
  CHECK(error_of(unchecked).find("image: damaged PNG: ") == 0);
}

TEST_CASE("a JPEG of a hostile size is refused before memory is allocated", "[decode]") {
  REQUIRE(jpeg_claiming(2, 2) == test::jpeg_of(2, 2, true));
  CHECK(error_of(jpeg_claiming(32'639, 32'639)) ==
        "image: an image of 32639x32639 pixels; 1 to 67108864 are read");
  CHECK(error_of(jpeg_claiming(65'535, 65'535)).find("image: ") == 0);
  CHECK(error_of(jpeg_claiming(0, 2)).find("image: damaged JPEG: ") == 0);
  CHECK(error_of(jpeg_claiming(2, 0)).find("image: damaged JPEG: ") == 0);
  // More rows than there are pixels for.
  CHECK(error_of(jpeg_claiming(2'000, 2)).find("image: damaged JPEG: ") == 0);
}

TEST_CASE("a resized image keeps its ramps and its constants", "[decode]") {
  const DecodedImage image = decoded(test::png_of(4, 4, true));
  CHECK(data::resize(image, 4, 4).pixels == image.pixels);
  const DecodedImage small = data::resize(image, 2, 2);
  REQUIRE(small.shape == data::ImageShape{1, 2, 2});
  // Each new pixel is between four old ones: (0 + 1 + 10 + 11) / 4 = 5.5, rounded up.
  CHECK(small.pixels == std::vector<std::uint8_t>{6, 8, 26, 28});
  const DecodedImage large = data::resize(image, 8, 8);
  CHECK(large.pixels.front() == 0);
  CHECK(large.pixels.back() == 33);
}
