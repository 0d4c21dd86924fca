// What a process says of a path.
#include "proto/node_check/path_facts.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST_CASE("two folders with the same files have the same contents and other inodes", "[doctor]") {
  const test::TempFolder folder;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder.path() / name);
    write(folder.path() / name / "train", "12345");
    write(folder.path() / name / "test", "123");
  }
  const auto a = describe_path((folder.path() / "a").string());
  auto b = describe_path((folder.path() / "b").string());
  CHECK(a.error().empty());
  CHECK(a.exists());
  CHECK(a.is_folder());
  CHECK(a.is_writable());
  CHECK(a.size() == 2);
  CHECK(a.contents() == b.contents());
  CHECK(a.inode() != b.inode());
  CHECK(a.inode() == describe_path((folder.path() / "a").string()).inode());
  write(folder.path() / "b" / "test", "1234");
  b = describe_path((folder.path() / "b").string());
  CHECK(a.contents() != b.contents());
}

TEST_CASE("of a folder with many entries the first ones by name are compared", "[doctor]") {
  const test::TempFolder folder;
  for (const char* name : {"all", "first"}) std::filesystem::create_directory(folder.path() / name);
  for (int number = 100; number > 0; --number) {
    const std::string name = std::to_string(1000 + number * 37 % 101);
    write(folder.path() / "all" / name, "12345");
    if (name < "1004") write(folder.path() / "first" / name, "12345");
  }
  const auto all = describe_path((folder.path() / "all").string(), 3);
  const auto first = describe_path((folder.path() / "first").string(), 3);
  CHECK(all.size() == 100);
  CHECK(first.size() == 3);
  CHECK(all.contents() == first.contents());
}

TEST_CASE("a file is known by its size and its ends", "[doctor]") {
  const test::TempFolder folder;
  const std::string path = (folder.path() / "weights").string();
  const std::string middle(300'000, 'm');
  write(path, "begin" + middle + "end");
  const auto before = describe_path(path);
  CHECK(before.exists());
  CHECK_FALSE(before.is_folder());
  CHECK(before.size() == 300'008);
  write(path, "begin" + middle + "END");
  CHECK(describe_path(path).contents() != before.contents());
}

TEST_CASE("of a path that does not exist the folder above it is described", "[doctor]") {
  const test::TempFolder folder;
  const auto facts = describe_path((folder.path() / "runs" / "checkpoints").string());
  CHECK(facts.error().empty());
  CHECK_FALSE(facts.exists());
  CHECK(facts.is_folder());
  CHECK(facts.inode() == describe_path(folder.path().string()).inode());
}

}  // namespace
}  // namespace taut
