#include "common/check.hpp"
#include "proto/caffe_data.pb.h"
#include "tests/fuzz/fuzz_target.hpp"
#include "worker/data/images/parse_datum.hpp"

// The bytes of a Datum: raw, as floats, or with an encoded image within.
namespace taut {

std::vector<std::string> fuzz::samples() {
  caffe::Datum raw;
  raw.set_channels(2);
  raw.set_height(3);
  raw.set_width(4);
  raw.set_label(300);
  raw.set_data(std::string(24, 'x'));
  caffe::Datum floats = raw;
  floats.clear_data();
  for (int i = 0; i < 24; ++i) floats.add_float_data(1);
  caffe::Datum encoded;
  encoded.set_encoded(true);
  encoded.set_data("\xff\xd8\xff\xd9");
  return {raw.SerializeAsString(), floats.SerializeAsString(), encoded.SerializeAsString(), {}};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = taut::data::parse_datum({data, size}, "input", taut::data::Colour::kAsStored);
  if (!image) {
    TAUT_CHECK(image.error().message.find("input") == 0, "a refusal says where");
    return 0;
  }
  const auto& found = image.value();
  const std::size_t held = found.floats.empty() ? found.pixels.size() : found.floats.size();
  TAUT_CHECK(held == found.shape.pixels() && held > 0, "numbers missing or left over");
  return 0;
}
