#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/check.hpp"
#include "proto/formats/caffe_model.hpp"
#include "tests/fuzz/fuzz_target.hpp"

// A .caffemodel, in memory that reads as a file.
namespace taut {

std::vector<std::string> fuzz::samples() {
  const std::string numbers("\x2a\x08\0\0\x80\x3f\0\0\0\x40", 10);        // data 1, 2
  const std::string shape("\x3a\x03\x0a\x01\x02", 5);                     // shape { dim: 2 }
  const std::string blob = std::string("\x3a\x0f", 2) + shape + numbers;  // of today's layer
  const std::string layer = std::string(
                                "\x0a\x02"
                                "fc",
                                4) +
                            blob;
  const std::string old_blob = std::string("\x32\x0c\x20\x02", 4) + numbers;
  const std::string old_layer = std::string(
                                    "\x22\x02"
                                    "fc",
                                    4) +
                                old_blob;
  const auto field = [](std::string tag, const std::string& body) {
    return std::move(tag) + static_cast<char>(body.size()) + body;
  };
  return {field(std::string("\xa2\x06", 2), layer),
          field(std::string("\x0a", 1), "net") + field(std::string("\x12", 1), old_layer),
          field(std::string("\xa2\x06", 2), layer) + field(std::string("\xa2\x06", 2), layer)};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace taut;
  static const int memory = memfd_create("input", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  TAUT_CHECK(memory >= 0 && ftruncate(memory, 0) == 0 &&
                 pwrite(memory, data, size, 0) == static_cast<ssize_t>(size),
             "no memory to read from");
  const auto file = TensorFile::open(path);
  TAUT_CHECK(file.has_value(), "memory that cannot be read");
  const auto tensors = caffe::scan_model(file.value());
  if (!tensors) {
    TAUT_CHECK(tensors.error().message.find(path) == 0, "a refusal says where");
    TAUT_CHECK(tensors.error().message.find('\n') == std::string::npos, "a refusal is one line");
    return 0;
  }
  for (const StoredTensor& tensor : tensors.value()) {
    const std::uint64_t bytes = tensor.count() * bytes_of(tensor.type);
    TAUT_CHECK(tensor.offset <= size && bytes <= size - tensor.offset, "numbers beyond the end");
  }
  return 0;
}
