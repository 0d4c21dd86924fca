#include "common/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "common/files/file_writer.hpp"
#include "common/files/gz_stream.hpp"
#include "common/files/regular_file.hpp"
#include "common/files/tensor_file.hpp"
#include "common/system/memory.hpp"
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

TEST_CASE("what has the name of an unfinished file is not written to", "[file]") {
  const TestFolder folder;
  const fs::path others = folder.path / "others";
  const fs::path file = folder.path / "f";
  const fs::path unfinished = file.string() + ".part" + std::to_string(getpid());
  for (const bool is_link : {false, true}) {
    REQUIRE(write_file_atomically(others, "theirs"));
    for (int i = 0; i < 2; ++i) {
      if (is_link) {
        fs::create_symlink(others, unfinished);
      } else {
        fs::create_hard_link(others, unfinished);
      }
      if (i == 0) {
        CHECK(write_file_atomically(file, "ours").has_value());
      } else {
        auto writer = FileWriter::create(file, FileWriter::Durability::kNotFlushed);
        REQUIRE(writer.has_value());
        CHECK(writer.value().write_at(0, std::as_bytes(std::span("ours", 4))).has_value());
        CHECK(writer.value().commit().has_value());
      }
      CHECK(read_file(others).value() == "theirs");
      CHECK(read_file(file).value() == "ours");
      CHECK_FALSE(fs::exists(fs::symlink_status(unfinished)));
    }
  }
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

TEST_CASE("a pipe in place of a file is not opened: what would write into it still waits",
          "[file]") {
  const TestFolder folder;
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::atomic<bool> begins = false;
  std::atomic<bool> has_reader = false;
  std::thread writer([&] {
    begins = true;
    const int end = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    has_reader = true;
    close(end);
  });
  while (!begins) std::this_thread::yield();
  int refused = 0;
  constexpr int kTries = 2000;
  for (int i = 0; i < kTries; ++i) refused += read_file(pipe).has_value() ? 0 : 1;
  CHECK(refused == kTries);
  CHECK_FALSE(has_reader);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  writer.join();
  CHECK(has_reader);
  close(reader);
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

TEST_CASE("gzip's members follow one another, zeros end them, and other bytes are an error",
          "[file]") {
  const TestFolder folder;
  write_gz(folder.path / "one", "first, ");
  write_gz(folder.path / "two", "second");
  const std::string both =
      read_file(folder.path / "one").value() + read_file(folder.path / "two").value();
  const auto unpacked = [&](const std::string& bytes) {
    REQUIRE(write_file_atomically(folder.path / "all", bytes));
    return read_file_gz(folder.path / "all");
  };
  CHECK(unpacked(both).value() == "first, second");
  CHECK(unpacked(both + std::string(100'000, '\0')).value() == "first, second");
  for (const std::string& wrong : {both + "x", both + std::string("\0x", 2), both + "\x1f"}) {
    const auto read = unpacked(wrong);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message ==
          (folder.path / "all").string() + ": damaged or truncated gzip stream after 13 bytes");
  }
}

TEST_CASE("a stream gives what was asked for, and less only at the end", "[file]") {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i);
  write_gz(folder.path / "packed", text);
  REQUIRE(write_file_atomically(folder.path / "plain", text));
  for (const char* name : {"packed", "plain"}) {
    GzStream stream = GzStream::open(folder.path / name).value();
    CHECK(stream.is_packed() == (name == std::string("packed")));
    std::string read;
    char piece[1000];
    std::size_t count = sizeof piece;
    while (count == sizeof piece) {
      count = stream.read(std::as_writable_bytes(std::span(piece))).value();
      read.append(piece, count);
    }
    CHECK(read == text);
    CHECK(stream.read(std::as_writable_bytes(std::span(piece))).value() == 0);
  }
}

TEST_CASE("no file takes more than half of the available memory", "[file]") {
  CHECK(in_memory_limit(Bytes(10)) == Bytes(10));
  CHECK(in_memory_limit(Bytes(~0ULL)) <= Bytes(machine_memory().value() / 2));
}

TEST_CASE("a pinned file gives the bytes of its digest, or an error", "[file]") {
  const TestFolder folder;
  const fs::path path = folder.path / "f";
  std::string bytes;
  for (int i = 0; i < 200'000; ++i) bytes += static_cast<char>(i * 7 >> (i % 5));
  REQUIRE(write_file_atomically(path, bytes));
  TensorFile file = TensorFile::open(path).value();
  CHECK(file.pin().value() == file.sha256().value());
  const auto read = [&](std::size_t offset, std::size_t count) {
    std::string out(count, ' ');
    const auto done = file.read_bytes(offset, std::as_writable_bytes(std::span(out)));
    return done ? out : done.error().message;
  };
  // Across blocks, from within one, all of it, nothing.
  for (const auto& [offset, count] : {std::pair<std::size_t, std::size_t>{65'000, 70'000},
                                      {1, 10},
                                      {0, 200'000},
                                      {131'072, 65'536},
                                      {199'999, 1},
                                      {200'000, 0}}) {
    CHECK(read(offset, count) == bytes.substr(offset, count));
  }
  // Two blocks that have each other's bytes are not what they were either.
  const std::string exchanged = bytes.substr(65'536, 65'536) + bytes.substr(0, 65'536);
  {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    out.write(exchanged.data(), static_cast<std::streamsize>(exchanged.size()));
  }
  CHECK(read(0, 10).find(": bytes 0 to 65535 are not what they were") != std::string::npos);
  CHECK(read(131'000, 100).find("bytes 65536 to 131071") != std::string::npos);
  CHECK(read(131'072, 68'928) == bytes.substr(131'072));
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
