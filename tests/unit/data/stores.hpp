#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/images/image_store.hpp"

namespace taut::test {

/// Images of two channels, 2 x 3, whose pixel p of image i is (i + 10 * p) mod 256.
class Numbers final : public data::ImageStore {
 public:
  static constexpr std::uint64_t kImages = 50;
  static std::int64_t label_of(std::uint64_t index) {
    return static_cast<std::int64_t>(index * 1000);
  }

  Numbers() {
    for (std::size_t i = 0; i < kImages; ++i) {
      for (std::size_t p = 0; p < 12; ++p) bytes_.push_back(static_cast<std::uint8_t>(i + 10 * p));
    }
  }
  std::uint64_t size() const override { return kImages; }
  data::ImageShape shape() const override { return {2, 2, 3}; }
  Result<data::StoredImage> read(std::uint64_t index) const override {
    data::StoredImage image;
    image.shape = shape();
    image.pixels = std::span(bytes_).subspan(index * 12, 12);
    image.label = label_of(index);
    return image;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace taut::test
