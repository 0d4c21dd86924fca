#include "common/files/allowed_folders.hpp"

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/regular_file.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "common/hdf5/hdf5_writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

/// A folder that is allowed and one that is not, with a file each.
struct TwoFolders {
  TwoFolders() {
    for (const char* name : {"in", "out"}) {
      fs::create_directory(folder.path() / name);
      std::ofstream(folder.path() / name / "f") << name;
    }
    limit_files_to({in()}, {folder.path() / "ready"});
  }
  ~TwoFolders() { limit_files_to({}, {}); }
  TwoFolders(const TwoFolders&) = delete;
  TwoFolders& operator=(const TwoFolders&) = delete;
  [[nodiscard]] fs::path in() const { return folder.path() / "in"; }
  [[nodiscard]] fs::path out() const { return folder.path() / "out"; }

  test::TempFolder folder;
};

}  // namespace

TEST_CASE("files outside of the allowed folders are not opened, wherever links lead",
          "[allowed_folders]") {
  const TwoFolders two;
  CHECK(read_file(two.in() / "f").value() == "in");
  CHECK(read_file(two.in() / "../in/f").value() == "in");
  fs::create_symlink(two.out() / "f", two.in() / "link");
  fs::create_directory_symlink(two.out(), two.in() / "folder");
  fs::create_symlink(two.in() / "f", two.out() / "back");
  const fs::path sibling = two.folder.path() / "in2";
  fs::create_directory(sibling);
  std::ofstream(sibling / "f") << "sibling";
  for (const fs::path& path :
       {two.out() / "f", two.in() / "../out/f", two.in() / "link", two.in() / "folder/f",
        sibling / "f", fs::path("/etc/passwd"), fs::path("/proc/self/status")}) {
    INFO(path);
    const auto read = read_file(path);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message.find("allowed_folders") != std::string::npos);
    CHECK(read.error().message.find(two.in().string()) != std::string::npos);
    CHECK_FALSE(check_place(path).has_value());
  }
  CHECK(read_file(two.out() / "back").value() == "in");
  CHECK(read_file(two.in() / "none").error().code == ErrorCode::kNotFound);
}

TEST_CASE("nothing is created outside of the allowed folders", "[allowed_folders]") {
  const TwoFolders two;
  fs::create_directory_symlink(two.out(), two.in() / "folder");
  REQUIRE(write_file_atomically(two.in() / "new", "text"));
  CHECK(read_file(two.in() / "new").value() == "text");
  // A process's own files, with what they are called until they are whole.
  CHECK(write_file_atomically(two.folder.path() / "ready", "text"));
  CHECK_FALSE(write_file_atomically(two.out() / "new", "text"));
  CHECK_FALSE(write_file_atomically(two.in() / "folder/new", "text"));
  CHECK_FALSE(open_to_write(two.out() / "f", O_WRONLY | O_TRUNC).has_value());
  CHECK(std::distance(fs::directory_iterator(two.out()), {}) == 1);
  CHECK(fs::file_size(two.out() / "f") == 3);
  CHECK(check_place(two.in() / "not/yet/there").has_value());
  CHECK_FALSE(check_place(two.in() / "folder/not/yet").has_value());
}

TEST_CASE("a folder without a name, or that cannot be resolved, allows nothing",
          "[allowed_folders]") {
  const TwoFolders two;
  for (const fs::path& nowhere : {fs::path(), two.folder.path() / std::string(300, 'x')}) {
    INFO(nowhere);
    limit_files_to({two.in(), nowhere}, {nowhere});
    CHECK(read_file(two.in() / "f").value() == "in");
    CHECK_FALSE(read_file(two.out() / "f").has_value());
    CHECK_FALSE(write_file_atomically(two.out() / "new", "text"));
    CHECK_FALSE(check_place("/etc/passwd").has_value());
  }
  limit_files_to({fs::path()}, {});
  CHECK(are_files_limited());
  CHECK_FALSE(check_place(two.in() / "f").has_value());
}

TEST_CASE("HDF5 reads the file that was looked at, while its name leads elsewhere",
          "[allowed_folders]") {
  const TwoFolders two;
  limit_files_to({}, {});
  for (const fs::path& place : {two.in(), two.out()}) {
    auto writer = hdf5::Writer::create(place / "net.h5", {{place.filename().string(), {1}}});
    REQUIRE(writer.has_value());
    REQUIRE(writer.value().write(0, 0, std::vector<float>{1}));
    REQUIRE(writer.value().finish());
  }
  limit_files_to({two.in()}, {});
  const fs::path name = two.in() / "link.h5";
  std::atomic<bool> ends = false;
  std::thread changer([&] {
    // Renaming a link takes no time in which the name leads nowhere.
    for (int i = 0; !ends; ++i) {
      fs::create_symlink((i % 2 == 0 ? two.in() : two.out()) / "net.h5", two.in() / "next");
      fs::rename(two.in() / "next", name);
    }
  });
  int read = 0;
  int others = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < until) {
    const auto listed = hdf5::list_datasets(name);
    if (!listed) continue;
    ++read;
    if (listed.value().front().name != "in") ++others;
  }
  ends = true;
  changer.join();
  CHECK(read > 0);
  CHECK(others == 0);
}

TEST_CASE("without a call every file may be opened", "[allowed_folders]") {
  CHECK_FALSE(are_files_limited());
  CHECK(check_place("/etc").has_value());
}

}  // namespace taut
