#include <fmt/format.h>
#include <png.h>

#include "worker/data/images/decode_image.hpp"

namespace taut::data {
namespace {

/// libpng's simplified interface: one image from memory, errors as text.
class PngImage {
 public:
  PngImage() { image_.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image_); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  [[nodiscard]] png_image& get() { return image_; }
  [[nodiscard]] bool failed() const { return PNG_IMAGE_FAILED(image_) != 0; }
  [[nodiscard]] const char* message() const { return image_.message; }

 private:
  png_image image_{};
};

}  // namespace

Result<DecodedImage> decode_png(std::span<const std::uint8_t> file, const std::string& name,
                                Colour colour) {
  PngImage png;
  if (png_image_begin_read_from_memory(&png.get(), file.data(), file.size()) == 0) {
    return invalid(fmt::format("{}: damaged PNG: {}", name, png.message()));
  }
  TAUT_TRY(check_image_size(png.get().height, png.get().width, name));
  const bool stored_gray = (png.get().format & PNG_FORMAT_FLAG_COLOR) == 0;
  const bool gray = colour == Colour::kGray || (colour == Colour::kAsStored && stored_gray);
  png.get().format = gray ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const ImageShape shape{gray ? 1 : 3, png.get().height, png.get().width};
  std::vector<std::uint8_t> rows(shape.pixels());
  // Transparent pixels are drawn on black.
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png.get(), &black, rows.data(), 0, nullptr) == 0 || png.failed()) {
    return invalid(fmt::format("{}: damaged PNG: {}", name, png.message()));
  }
  return to_planes(rows, shape);
}

}  // namespace taut::data
