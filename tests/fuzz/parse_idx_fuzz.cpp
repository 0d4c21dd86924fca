#include "common/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/data/idx_bytes.hpp"
#include "worker/data/images/idx.hpp"

// The first byte is how many extents are wanted; the file follows.
namespace taut {

std::vector<std::string> fuzz::samples() {
  return {'\3' + test::idx_images(3, 4, 5), '\1' + test::idx_labels(9),
          '\3' + test::idx_header({0xffffffffU, 0xffffffffU, 0xffffffffU}), '\2' + std::string()};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t extents = data[0] % 8;
  const std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto parsed = taut::data::parse_idx(file, "input", extents);
  if (!parsed) {
    TAUT_CHECK(parsed.error().message.find("input") != std::string::npos, "a refusal says where");
    return 0;
  }
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : parsed.value().extents) elements *= extent;
  TAUT_CHECK(parsed.value().extents.size() == extents, "another number of extents");
  TAUT_CHECK(parsed.value().elements().size() == elements, "elements missing or left over");
  return 0;
}
