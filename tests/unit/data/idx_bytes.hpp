#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace taut::test {

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

/// The header of an IDX file of unsigned bytes.
inline std::string idx_header(std::initializer_list<std::uint32_t> extents) {
  std::string bytes = big_endian(0x0800U | static_cast<std::uint32_t>(extents.size()));
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes;
}

/// `count` images of height x width whose pixel p of image i is (i * 7 + p) mod 256.
inline std::string idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  std::string bytes = idx_header({count, height, width});
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t p = 0; p < height * width; ++p) bytes += static_cast<char>(i * 7 + p);
  }
  return bytes;
}

/// `count` labels, i mod 10.
inline std::string idx_labels(std::uint32_t count) {
  std::string bytes = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

}  // namespace taut::test
