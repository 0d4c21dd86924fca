#include "common/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "common/files/regular_file.hpp"
#include "common/files/tensor_file.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
namespace fs = std::filesystem;

namespace {

/// A folder that is removed when the test ends.
struct TestFolder {
  fs::path path = fs::temp_directory_path() / ("taut_file_test_" + std::to_string(getpid()));
  TestFolder() { fs::create_directories(path / "a" / "b"); }
  ~TestFolder() { fs::remove_all(path); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
};

void write_gz(const fs::path& path, const std::string& text) {
  gzFile out = gzopen(path.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
}

}  // namespace

TEST_CASE("a file written atomically is read back", "[file]") {
  const TestFolder folder;
  REQUIRE(write_file_atomically(folder.path / "f", "one"));
  REQUIRE(write_file_atomically(folder.path / "f", "two"));
  CHECK(read_file(folder.path / "f").value() == "two");
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
}

TEST_CASE("a failed read names the file and the reason", "[file]") {
  const TestFolder folder;
  const auto missing = read_file(folder.path / "none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message.find("none") != std::string::npos);
  CHECK(read_file(folder.path).error().message.find("is a folder") != std::string::npos);
  REQUIRE(write_file_atomically(folder.path / "big", std::string(100, 'x')));
  CHECK(read_file(folder.path / "big", Bytes(99)).error().message.find("limit") !=
        std::string::npos);
}

TEST_CASE("a pipe, a folder or a device is refused without waiting for it", "[file]") {
  const TestFolder folder;
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const fs::path& path : {pipe, fs::path("/dev/null"), fs::path("/dev/zero")}) {
    const auto read = read_file(path);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message == path.string() + ": is a pipe, a socket or a device, not a file");
  }
  CHECK(read_file(folder.path / "a").error().message ==
        (folder.path / "a").string() + ": is a folder, not a file");
  CHECK(TensorFile::open(pipe).error().code == ErrorCode::kInvalid);
  CHECK_FALSE(open_to_write(pipe, O_WRONLY | O_APPEND).has_value());
  fs::create_symlink(folder.path / "f", folder.path / "link");
  CHECK_FALSE(open_to_write(folder.path / "link", O_WRONLY).has_value());
  CHECK_FALSE(fs::exists(folder.path / "f"));
}

TEST_CASE("gzip is seen by its bytes, and every truncation of it is an error", "[file]") {
  const TestFolder folder;
  const std::string text(5000, 'q');
  write_gz(folder.path / "t.gz", text);
  CHECK(read_file_gz(folder.path / "t.gz").value() == text);
  REQUIRE(write_file_atomically(folder.path / "plain", "abc"));
  CHECK(read_file_gz(folder.path / "plain").value() == "abc");
  CHECK_FALSE(read_file_gz(folder.path / "t.gz", Bytes(4999)));

  const std::string packed = read_file(folder.path / "t.gz").value();
  for (std::size_t size = 2; size < packed.size(); ++size) {
    REQUIRE(write_file_atomically(folder.path / "cut", packed.substr(0, size)));
    const auto cut = read_file_gz(folder.path / "cut");
    REQUIRE_FALSE(cut);
    CHECK(cut.error().message.find("truncated") != std::string::npos);
  }
}

TEST_CASE("a mentioned path is looked up in the folder of the mentioning file and above",
          "[file]") {
  const TestFolder folder;
  REQUIRE(write_file_atomically(folder.path / "data", "x"));
  const auto found = find_mentioned("data", folder.path / "a" / "b" / "job");
  REQUIRE(found);
  CHECK(fs::equivalent(found.value(), folder.path / "data"));
  const auto missing = find_mentioned("nowhere", folder.path / "a" / "job");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find((folder.path / "a" / "nowhere").string()) !=
        std::string::npos);
}
