#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include "common/check.hpp"

namespace taut::test {

/// height x width pixels of (row, column, 200), or of 10 * row + column where it is gray.
inline std::vector<std::uint8_t> sample_pixels(int height, int width, bool gray) {
  std::vector<std::uint8_t> pixels;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      if (gray) {
        pixels.push_back(static_cast<std::uint8_t>(10 * row + column));
      } else {
        pixels.push_back(static_cast<std::uint8_t>(row));
        pixels.push_back(static_cast<std::uint8_t>(column));
        pixels.push_back(200);
      }
    }
  }
  return pixels;
}

inline std::string png_of(int height, int width, bool gray) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = gray ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const auto pixels = sample_pixels(height, width, gray);
  png_alloc_size_t size = 0;
  TAUT_CHECK(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr) != 0,
             "a PNG's size");
  std::string bytes(size, '\0');
  TAUT_CHECK(
      png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0,
      "a PNG");
  bytes.resize(size);
  return bytes;
}

inline std::string jpeg_of(int height, int width, bool gray) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = gray ? 1 : 3;
  info.in_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  auto pixels = sample_pixels(height, width, gray);
  for (int row = 0; row < height; ++row) {
    JSAMPROW line = pixels.data() + row * width * (gray ? 1 : 3);
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

}  // namespace taut::test
