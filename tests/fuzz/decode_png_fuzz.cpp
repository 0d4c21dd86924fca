#include "common/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/data/image_files.hpp"
#include "worker/data/images/decode_image.hpp"

// The first byte chooses the colour; the file follows.
namespace taut {

std::vector<std::string> fuzz::samples() {
  return {'\0' + test::png_of(9, 7, false), '\1' + test::png_of(8, 8, true),
          '\2' + test::png_of(5, 3, false)};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto colour = static_cast<taut::data::Colour>(data[0] % 3);
  const auto image = taut::data::decode_png({data + 1, size - 1}, "input", colour);
  if (!image) {
    TAUT_CHECK(image.error().message.find("input") == 0, "a refusal says where");
    return 0;
  }
  TAUT_CHECK(image.value().pixels.size() == image.value().shape.pixels(), "pixels missing");
  return 0;
}
