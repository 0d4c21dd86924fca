#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/check.hpp"
#include "tests/fuzz/driver/memory_folder.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/images/lmdb_file.hpp"

namespace taut {
namespace {

/// The bytes of an LMDB with this many records; every seventh value has its own pages.
std::string database(int records, std::size_t bytes) {
  const test::TempFolder folder;
  auto writer = data::LmdbWriter::create(folder.path() / "lmdb");
  TAUT_CHECK(writer.has_value(), "a new LMDB");
  for (int i = 0; i < records; ++i) {
    const std::string value(i % 7 == 6 ? 5000 : bytes, static_cast<char>(i));
    TAUT_CHECK(writer.value()->add(std::to_string(100000 + i), value).has_value(), "a record");
  }
  TAUT_CHECK(writer.value()->finish().has_value(), "its end");
  std::ifstream in(folder.path() / "lmdb" / "data.mdb", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  return {database(0, 0), database(3, 10), database(8, 100), database(60, 200)};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const taut::test::TempFolder folder = taut::fuzz::memory_folder();
  folder.write("data.mdb", {reinterpret_cast<const char*>(data), size});
  const std::string name = folder.path().string();
  const auto reader = taut::data::LmdbReader::open(folder.path());
  if (!reader) {
    TAUT_CHECK(reader.error().message.find(name) == 0, "a refusal says where");
    return 0;
  }
  for (std::uint64_t i = 0; i < reader.value()->size(); ++i) {
    std::uint64_t sum = 0;
    const auto read =
        reader.value()->read(i, [&](taut::data::LmdbBytes bytes) -> taut::Result<void> {
          for (const std::uint8_t byte : bytes) sum += byte;
          return taut::ok();
        });
    TAUT_CHECK(read || read.error().message.find(name) == 0, "a refusal says where");
  }
  return 0;
}
