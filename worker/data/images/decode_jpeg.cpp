#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>

#include "worker/data/images/decode_image.hpp"

// libjpeg's header needs <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

namespace taut::data {
namespace {

/// libjpeg calls error_exit if it cannot continue, and expects no return.
struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->out, 1);
}

/// An image with a part missing is refused rather than filled with gray; libjpeg's other warnings
/// (bytes between markers) affect no pixel.
void warn(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool missing =
      code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
  if (level < 0 && missing) leave(info);
}

/// The state of decoding, kept outside of the frame that longjmp leaves.
struct Decoding {
  jpeg_decompress_struct info;
  ErrorManager errors;
  std::vector<std::uint8_t> rows;
  ImageShape shape;
  bool too_large = false;
};

/// Returns whether all of it was decoded. Holds no object with a destructor: longjmp skips them.
bool decode(Decoding& work, std::span<const std::uint8_t> file, Colour colour) {
  if (setjmp(work.errors.out) != 0) return false;
  jpeg_create_decompress(&work.info);
  jpeg_mem_src(&work.info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&work.info, TRUE);
  const auto pixels = std::int64_t{work.info.image_height} * std::int64_t{work.info.image_width};
  work.too_large = pixels > kMaxImagePixels;
  if (work.too_large) return false;
  const bool gray =
      colour == Colour::kGray || (colour == Colour::kAsStored && work.info.num_components == 1);
  work.info.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&work.info);
  work.shape = {gray ? 1 : 3, work.info.output_height, work.info.output_width};
  work.rows.resize(work.shape.pixels());
  const std::size_t stride = static_cast<std::size_t>(work.shape.channels * work.shape.width);
  while (work.info.output_scanline < work.info.output_height) {
    JSAMPROW row = work.rows.data() + work.info.output_scanline * stride;
    jpeg_read_scanlines(&work.info, &row, 1);
  }
  jpeg_finish_decompress(&work.info);
  return true;
}

}  // namespace

Result<DecodedImage> decode_jpeg(std::span<const std::uint8_t> file, const std::string& name,
                                 Colour colour) {
  Decoding work{};
  work.info.err = jpeg_std_error(&work.errors.base);
  work.errors.base.error_exit = leave;
  work.errors.base.emit_message = warn;
  const bool decoded = decode(work, file, colour);
  const std::uint64_t height = work.info.image_height;
  const std::uint64_t width = work.info.image_width;
  jpeg_destroy_decompress(&work.info);
  if (work.too_large) {
    TAUT_TRY(check_image_size(height, width, name));
  }
  if (!decoded) {
    return invalid(fmt::format("{}: damaged JPEG: {}", name, work.errors.message));
  }
  return to_planes(work.rows, work.shape);
}

}  // namespace taut::data
