#include "common/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "worker/data/images/parse_cifar10.hpp"

namespace taut {

std::vector<std::string> fuzz::samples() {
  return {std::string(data::kCifar10RecordBytes, '\1'),
          std::string(2 * data::kCifar10RecordBytes, '\2'),
          {}};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto records = taut::data::parse_cifar10(bytes, "input");
  if (!records) {
    TAUT_CHECK(records.error().message.find("input") == 0, "a refusal says where");
    return 0;
  }
  TAUT_CHECK(records.value() * taut::data::kCifar10RecordBytes == size, "bytes left over");
  return 0;
}
