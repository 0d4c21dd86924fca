#include "server/tables/weights_source.hpp"

#include <chrono>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using namespace taut;
using namespace taut::server;
using Catch::Matchers::Contains;

namespace {

std::string bytes_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TensorPlace place_of(const std::filesystem::path& path, std::uint64_t offset) {
  return {path.string(), TensorFile::open(path).value().sha256().value(), offset,
          ElementType::kF32};
}

bool is_read_ahead(FileWeights& values, const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  while (!values.has_read(path) &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    std::this_thread::yield();
  }
  return values.has_read(path);
}

}  // namespace

TEST_CASE("a slice gets its own elements of a tensor in a file", "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", "head" + bytes_of_floats({0, 1, 2, 3, 4}));
  FileWeights values;
  std::vector<float> out(2);
  REQUIRE(values.read(place_of(path, 8), 2, out));
  CHECK(out == std::vector<float>{3, 4});
  CHECK_THAT(values.read(place_of(path, 8), 3, out).error().message, Contains("from byte 20 on"));
}

TEST_CASE("a file that was read ahead is not read through again by the shard that needs it",
          "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", bytes_of_floats({1, 2, 3}));
  const TensorPlace place = place_of(path, 0);
  FileWeights values;
  CHECK_FALSE(values.has_read(path.string()));
  values.read_ahead({(folder.path() / "absent").string(), path.string()});
  REQUIRE(is_read_ahead(values, path.string()));
  // Under its name there is nothing any more that could be read through.
  std::filesystem::rename(path, folder.path() / "moved");
  std::vector<float> out(2);
  REQUIRE(values.read(place, 1, out));
  CHECK(out == std::vector<float>{2, 3});
}

TEST_CASE("a file that has replaced one of its name is read ahead too", "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", bytes_of_floats({1, 2, 3}));
  FileWeights values;
  values.read_ahead({path.string()});
  REQUIRE(is_read_ahead(values, path.string()));
  std::filesystem::rename(folder.write("next", bytes_of_floats({4, 5, 6})), path);
  CHECK_FALSE(values.has_read(path.string()));
  const TensorPlace place = place_of(path, 0);
  values.read_ahead({path.string()});
  REQUIRE(is_read_ahead(values, path.string()));
  // No file of that name can be read through for the shard.
  std::filesystem::rename(path, folder.path() / "moved");
  std::vector<float> out(2);
  REQUIRE(values.read(place, 1, out));
  CHECK(out == std::vector<float>{5, 6});
}

TEST_CASE("a shard and what reads ahead may need a file at once", "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", bytes_of_floats(std::vector<float>(1U << 20U, 5.0F)));
  const TensorPlace place = place_of(path, 0);
  FileWeights values;
  values.read_ahead({path.string()});
  std::vector<float> out(2);
  REQUIRE(values.read(place, 7, out));
  CHECK(out == std::vector<float>{5, 5});
}

TEST_CASE("files are read no further once their reading is stopped", "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", bytes_of_floats({1, 2, 3}));
  const TensorPlace place = place_of(path, 0);
  FileWeights values;
  values.stop();
  std::vector<float> out(2);
  const auto stopped = values.read(place, 0, out);
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == ErrorCode::kClosed);
  CHECK_THAT(stopped.error().message, Contains(path.string()));
}

TEST_CASE("a file that is not the one that was meant is refused by name", "[initial]") {
  const test::TempFolder folder;
  const auto path = folder.write("w", bytes_of_floats({1, 2}));
  const TensorPlace place = place_of(path, 0);
  FileWeights values;
  std::vector<float> out(2);
  REQUIRE(values.read(place, 0, out));
  // Also one that was the right one before.
  folder.write("w", bytes_of_floats({1, 2, 3}));
  const auto changed = values.read(place, 0, out);
  REQUIRE_FALSE(changed);
  CHECK(changed.error().code == ErrorCode::kMismatch);
  CHECK_THAT(changed.error().message, Contains(path.string()) && Contains("not the same file"));
  REQUIRE(values.read(place_of(path, 4), 0, out));
  CHECK(out == std::vector<float>{2, 3});
  // And one that does not look as if it had been written to.
  const TensorPlace three = place_of(path, 0);
  REQUIRE(values.read(three, 0, out));
  const auto written = std::filesystem::last_write_time(path);
  folder.write("w", bytes_of_floats({7, 2, 3}));
  std::filesystem::last_write_time(path, written);
  CHECK(values.read(three, 0, out).error().code == ErrorCode::kMismatch);
  std::filesystem::remove(path);
  CHECK(FileWeights().read(place, 0, out).error().code == ErrorCode::kNotFound);
}
