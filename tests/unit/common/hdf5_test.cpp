#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/tensor_file.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "common/hdf5/hdf5_writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/common/hdf5_files.hpp"

using namespace taut;
using Catch::Matchers::Contains;
using taut::test::Hdf5File;
using taut::test::TempFolder;

namespace {

constexpr Bytes kLimit{1ULL << 20U};

std::vector<double> counted(std::size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

std::string listing_error(const std::filesystem::path& path) {
  const auto listed = hdf5::list_datasets(path);
  return listed ? "" : listed.error().message;
}

}  // namespace

TEST_CASE("arrays that were written are found in their groups, their numbers at their offsets",
          "[hdf5]") {
  const TempFolder folder;
  const auto path = folder.path() / "net.h5";
  auto writer = hdf5::Writer::create(path, {{"data/conv/1/0", {2, 3}}, {"data/fc/0", {4}}});
  REQUIRE(writer);
  REQUIRE(writer.value().write(0, 0, std::vector<float>{1, 2, 3}));
  REQUIRE(writer.value().write(0, 3, std::vector<float>{4, 5, 6}));
  REQUIRE(writer.value().write(1, 1, std::vector<float>{8}));
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(writer.value().finish().has_value());

  const auto listed = hdf5::list_datasets(path);
  REQUIRE(listed);
  REQUIRE(listed.value().size() == 2);
  const hdf5::Dataset& first = listed.value()[0];
  CHECK(first.name == "data/conv/1/0");
  CHECK(first.shape == std::vector<std::uint64_t>{2, 3});
  CHECK(first.type == ElementType::kF32);
  REQUIRE(first.offset.has_value());
  const auto file = TensorFile::open(path);
  REQUIRE(file);
  std::vector<float> values(6);
  REQUIRE(file.value().read_floats(*first.type, *first.offset, values));
  CHECK(values == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(hdf5::read_floats(path, listed.value()[1], kLimit).value() ==
        std::vector<float>{0, 8, 0, 0});
}

TEST_CASE("a file says what has written it, where its writer has said so", "[hdf5]") {
  const test::TempFolder folder;
  const auto path = folder.path() / "net.h5";
  const auto write = [&](const std::string& by) {
    auto writer = hdf5::Writer::create(path, {{"data", {2}}}, by);
    REQUIRE(writer.has_value());
    REQUIRE(writer.value().write(0, 0, std::vector<float>{1, 2}).has_value());
    REQUIRE(writer.value().finish().has_value());
  };
  CHECK(hdf5::writer_of(path).empty());
  write("");
  CHECK(hdf5::writer_of(path).empty());
  write("a test");
  CHECK(hdf5::writer_of(path) == "a test");
  CHECK(hdf5::list_datasets(path).value().size() == 1);
  CHECK(hdf5::read_floats(path, hdf5::list_datasets(path).value()[0], Bytes(100)).value() ==
        std::vector<float>{1, 2});
  write(std::string(65, 'x'));
  CHECK(hdf5::writer_of(path).empty());
  REQUIRE(write_file_atomically(path, "no HDF5").has_value());
  CHECK(hdf5::writer_of(path).empty());
}

TEST_CASE("a file is put under another name, and replaces one there only if it is told to",
          "[hdf5]") {
  const TempFolder folder;
  const auto named = [&](const char* name) { return folder.path() / name; };
  const auto write = [&](const std::string& by) {
    auto writer = hdf5::Writer::create(named("net.h5"), {{"data", {1}}}, by);
    REQUIRE(writer.has_value());
    return std::move(writer.value());
  };
  const auto count = [&] {
    const std::filesystem::directory_iterator files(folder.path());
    return std::distance(begin(files), end(files));
  };
  {
    hdf5::Writer writer = write("one");
    REQUIRE(writer.finish_as_new(named("net.h5")).has_value());
  }
  {
    hdf5::Writer writer = write("two");
    const auto refused = writer.finish_as_new(named("net.h5"));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kExists);
    CHECK(hdf5::writer_of(named("net.h5")) == "one");
    REQUIRE(writer.finish_as_new(named("net-2.h5")).has_value());
  }
  CHECK(hdf5::writer_of(named("net-2.h5")) == "two");
  {
    hdf5::Writer writer = write("three");
    REQUIRE(writer.finish_as(named("net-2.h5")).has_value());
  }
  CHECK(hdf5::writer_of(named("net-2.h5")) == "three");
  CHECK(hdf5::writer_of(named("net.h5")) == "one");
  // A link whose target is missing has the name, too.
  std::filesystem::create_symlink("nowhere", named("net-3.h5"));
  {
    hdf5::Writer writer = write("four");
    CHECK(writer.finish_as_new(named("net-3.h5")).error().code == ErrorCode::kExists);
  }
  // No drafts.
  CHECK(count() == 3);
}

TEST_CASE("a writer that is dropped leaves no file, and a bad name is refused", "[hdf5]") {
  const TempFolder folder;
  const auto path = folder.path() / "net.h5";
  { REQUIRE(hdf5::Writer::create(path, {{"a", {1}}})); }
  const auto twice = hdf5::Writer::create(path, {{"a", {1}}, {"a", {1}}});
  REQUIRE_FALSE(twice);
  CHECK_THAT(twice.error().message, Contains("net.h5: array \"a\" cannot be created: "));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(hdf5::Writer::create("/nowhere/net.h5", {}).error().code == ErrorCode::kIo);
}

TEST_CASE("a writer writes through no link that has the name of its unfinished file", "[hdf5]") {
  const TempFolder folder;
  const auto others = folder.write("others", "theirs");
  const auto path = folder.path() / "net.h5";
  std::filesystem::create_symlink(others, path.string() + ".part" + std::to_string(getpid()));
  auto writer = hdf5::Writer::create(path, {{"data", {1}}});
  REQUIRE(writer);
  REQUIRE(writer.value().write(0, 0, std::vector<float>{1}));
  REQUIRE(writer.value().finish().has_value());
  CHECK(read_file(others).value() == "theirs");
  CHECK(hdf5::list_datasets(path).value().size() == 1);
}

TEST_CASE("arrays in chunks, compressed, of integers and big-endian are read as floats", "[hdf5]") {
  const TempFolder folder;
  const auto path = folder.path() / "mixed.h5";
  {
    Hdf5File file(path);
    file.add("big", {6}, counted(6), {.type = H5T_IEEE_F64BE});
    file.add("chunks", {100, 10}, counted(1000), {.chunk = {7, 10}, .deflate = true});
    file.add("whole", {3}, counted(3), {.type = H5T_STD_I64LE});
  }
  const auto listed = hdf5::list_datasets(path);
  REQUIRE(listed);
  REQUIRE(listed.value().size() == 3);
  CHECK_FALSE(listed.value()[0].type.has_value());
  CHECK(listed.value()[1].is_compressed);
  CHECK_FALSE(listed.value()[1].offset.has_value());
  CHECK(listed.value()[2].type == ElementType::kI64);
  for (const hdf5::Dataset& dataset : listed.value()) {
    const auto values = hdf5::read_floats(path, dataset, kLimit);
    INFO(dataset.name);
    REQUIRE(values);
    const std::vector<double> expected = counted(dataset.count);
    CHECK(std::equal(expected.begin(), expected.end(), values.value().begin()));
  }
  CHECK_THAT(hdf5::read_floats(path, listed.value()[1], Bytes(3999)).error().message,
             Contains("mixed.h5: \"chunks\" has 1000 elements; at most 999 fit into 3999 bytes"));
}

TEST_CASE("an array that claims more than it stores is refused before memory is taken", "[hdf5]") {
  const TempFolder folder;
  const auto path = folder.path() / "huge.h5";
  {
    Hdf5File file(path);
    file.add("huge", {1ULL << 40U, 4}, {}, {.chunk = {1, 4}});
    file.add("never", {10}, {});
  }
  const auto listed = hdf5::list_datasets(path);
  REQUIRE(listed);
  const Bytes all(~0ULL);
  CHECK_THAT(hdf5::read_floats(path, listed.value()[0], all).error().message,
             Contains("has 4398046511104 elements of 4 bytes and stores 0 bytes of them"));
  CHECK_THAT(hdf5::read_floats(path, listed.value()[1], all).error().message,
             Contains("it was never filled, or is damaged"));
}

TEST_CASE("links of an HDF5 file to other files are not followed", "[hdf5]") {
  const TempFolder folder;
  const auto secret = folder.write("secret", "12345678");
  const auto other = folder.path() / "other.h5";
  { Hdf5File(other).add("a", {1}, {1}); }
  const auto path = folder.path() / "links.h5";
  {
    Hdf5File file(path);
    file.add("outside", {2}, {}, {.external = secret.string()});
    H5Lcreate_external(other.c_str(), "a", file.id(), "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/outside", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file.id(), "/", file.id(), "loop", H5P_DEFAULT, H5P_DEFAULT);
  }
  CHECK_THAT(listing_error(path), Contains("links.h5: groups are nested more than 32 deep"));
  {
    Hdf5File file(path);
    file.add("outside", {2}, {}, {.external = secret.string()});
    H5Lcreate_external(other.c_str(), "a", file.id(), "external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/outside", file.id(), "soft", H5P_DEFAULT, H5P_DEFAULT);
  }
  const auto listed = hdf5::list_datasets(path);
  REQUIRE(listed);
  REQUIRE(listed.value().size() == 1);
  CHECK_THAT(hdf5::read_floats(path, listed.value()[0], kLimit).error().message,
             Contains("\"outside\" does not hold numbers, or holds them in another file"));
}

TEST_CASE("HDF5 files that are none, are cut anywhere or damaged are refused in one line",
          "[hdf5]") {
  const TempFolder folder;
  CHECK(hdf5::list_datasets("/nowhere/a.h5").error().code == ErrorCode::kNotFound);
  CHECK_THAT(listing_error(folder.path()), Contains("is a folder, not a file"));
  CHECK_THAT(listing_error(folder.write("text.h5", "a,b\n1,2\n")), Contains("is not an HDF5 file"));
  const auto path = folder.path() / "net.h5";
  { Hdf5File(path).add("data/fc/0", {2, 3}, counted(6)); }
  const std::string whole = read_file(path).value();
  for (std::size_t size = 0; size < whole.size(); size += size < 128 ? 1 : 37) {
    const std::string error = listing_error(folder.write("cut.h5", whole.substr(0, size)));
    if (error.empty() || error.find('\n') != std::string::npos) {
      FAIL("cut at " << size << ": \"" << error << '"');
    }
  }
  // Whatever a single changed byte does, it ends in an answer.
  for (std::size_t place = 8; place < whole.size(); ++place) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[place] = value;
      const auto damaged = folder.write("damaged.h5", changed);
      const auto listed = hdf5::list_datasets(damaged);
      if (!listed) continue;
      for (const hdf5::Dataset& dataset : listed.value()) {
        static_cast<void>(hdf5::read_floats(damaged, dataset, kLimit));
      }
    }
  }
}
