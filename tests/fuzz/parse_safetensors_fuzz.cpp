#include <cstring>

#include "common/check.hpp"
#include "common/files/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"

// A safetensors file whose bytes beyond the input are tensors' bytes.
namespace taut {

std::vector<std::string> fuzz::samples() {
  const auto file = [](const std::string& json, std::size_t data_bytes) {
    const std::uint64_t length = json.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + json + std::string(data_bytes, '\1');
  };
  return {file(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],)"
               R"("data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
               22),
          file(R"({"x":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )", 8), file("{}", 0)};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut::safetensors;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto length = parse_head_length(bytes, size, "input");
  if (!length) {
    TAUT_CHECK(length.error().message.find("input") == 0, "a refusal says where");
    return 0;
  }
  TAUT_CHECK(length.value() <= size - 8, "a header beyond the end");
  const auto head = parse_head(bytes.subspan(8, length.value()), size, "input");
  if (!head) {
    TAUT_CHECK(head.error().message.find("input") == 0, "a refusal says where");
    TAUT_CHECK(head.error().message.find('\n') == std::string::npos, "a refusal is one line");
    return 0;
  }
  std::uint64_t end = 0;
  for (const Tensor& tensor : head.value().tensors) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : tensor.shape) count *= extent;
    TAUT_CHECK(tensor.begin == end && tensor.count() == count, "a tensor that does not fit");
    end = tensor.end;
  }
  TAUT_CHECK(head.value().data_begin + end == size, "bytes of no tensor");
  return 0;
}
