#include "common/files/file_stream.hpp"

#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "common/files/file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = FileStream::kBlockBytes;

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24U);
  }
  return bytes;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// No file of this process grows beyond `bytes` while it lives: what a full disk does, told by
/// EFBIG.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileLimit() {
    (void)setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("a streamed file has the appended bytes, in any length and pieces", "[file]") {
  const test::TempFolder folder;
  // One piece that is longer than all blocks, and pieces that end anywhere.
  const auto [size, piece] = GENERATE(table<std::size_t, std::size_t>({{0, 1},
                                                                       {1, 1},
                                                                       {4096, 4096},
                                                                       {kBlock, 1000003},
                                                                       {kBlock + 1, 1000003},
                                                                       {4 * kBlock + 77, 1000003},
                                                                       {4 * kBlock, 4 * kBlock}}));
  CAPTURE(size, piece);
  const std::string bytes = pattern(size);
  const fs::path path = folder.path() / "large";
  auto created = FileStream::create(path, size);
  REQUIRE(created);
  FileStream& stream = *created.value();
  for (std::size_t begin = 0; begin < size; begin += piece) {
    REQUIRE(stream.append(as_bytes(std::string_view(bytes).substr(begin, piece))));
  }
  CHECK_FALSE(fs::exists(path));
  REQUIRE(stream.commit());
  CHECK(read_file(path).value() == bytes);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a streamed file that is not committed leaves nothing", "[file]") {
  const test::TempFolder folder;
  {
    const std::string bytes = pattern(3 * kBlock + 5);
    auto stream = FileStream::create(folder.path() / "large", bytes.size());
    REQUIRE(stream);
    REQUIRE(stream.value()->append(as_bytes(bytes)));
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a streamed file on a full disk reports it, and leaves nothing", "[file]") {
  const test::TempFolder folder;
  // More than all blocks hold, so that appending would wait forever for one that failed.
  const std::string bytes = pattern(6 * kBlock);
  const FileLimit limit(kBlock + 4096);
  auto stream = FileStream::create(folder.path() / "large", bytes.size());
  REQUIRE(stream);
  Result<void> done = stream.value()->append(as_bytes(bytes));
  if (done) done = stream.value()->commit();
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::kIo);
  CHECK(done.error().message.find((folder.path() / "large").string() + ": cannot be written") == 0);
  stream.value().reset();
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a streamed file in a missing folder is an error with its path", "[file]") {
  const test::TempFolder folder;
  const auto stream = FileStream::create(folder.path() / "none" / "large", 1);
  REQUIRE_FALSE(stream);
  CHECK(stream.error().message.find("none/large") != std::string::npos);
}

}  // namespace taut
