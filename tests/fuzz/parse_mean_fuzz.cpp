#include "common/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "worker/data/transform.hpp"

namespace taut {

std::vector<std::string> fuzz::samples() {
  const data::MeanImage mean{{2, 3, 4}, std::vector<float>(24, 1)};
  return {data::to_mean_file(mean), {}};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto mean = taut::data::parse_mean(bytes, "input");
  if (!mean) {
    TAUT_CHECK(mean.error().message.find("input") == 0, "a refusal says where");
    return 0;
  }
  TAUT_CHECK(mean.value().values.size() == mean.value().shape.pixels(), "numbers missing");
  return 0;
}
