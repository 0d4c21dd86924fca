// Whose files the HDF5Output layers of a job replace.
#include "worker/evaluation/hdf5_output.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/files/file.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::worker {
namespace {

namespace fs = std::filesystem;

/// A net whose one layer writes two blobs.
model::Graph writing_graph(const fs::path& path) {
  model::Graph graph;
  graph.blobs.resize(2);
  graph.blobs[0].shape = {2, 3};
  graph.blobs[1].shape = {2};
  model::Node& node = graph.nodes.emplace_back();
  node.definition.set_name("write");
  node.definition.set_type("HDF5Output");
  node.definition.mutable_hdf5_output_param()->set_file_name(path.string());
  node.bottoms = {0, 1};
  return graph;
}

/// One test of two batches.
Result<void> write_test(const fs::path& path, std::optional<std::uint64_t> submission) {
  Hdf5Output output(writing_graph(path), submission);
  TAUT_TRY(output.begin(2));
  TAUT_TRY(output.write());
  TAUT_TRY(output.write());
  return output.finish();
}

}  // namespace

TEST_CASE(
    "a job replaces what it has written itself, and takes another name where a file is "
    "another job's",
    "[hdf5]") {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "out.h5";
  const auto mark_of_file = [&](const char* name) { return hdf5::writer_of(folder.path() / name); };
  REQUIRE(write_test(path, 1).has_value());
  const std::string first = mark_of_file("out.h5");
  CHECK_THAT(first, Contains("0000000000000001"));
  REQUIRE(write_test(path, 1).has_value());
  CHECK_FALSE(fs::exists(folder.path() / "out-2.h5"));

  REQUIRE(write_test(path, 2).has_value());
  const std::string second = mark_of_file("out-2.h5");
  CHECK(mark_of_file("out.h5") == first);
  CHECK_THAT(second, Contains("0000000000000002"));
  REQUIRE(write_test(path, 2).has_value());
  REQUIRE(write_test(path, 1).has_value());
  CHECK(mark_of_file("out.h5") == first);
  CHECK(mark_of_file("out-2.h5") == second);
  CHECK_FALSE(fs::exists(folder.path() / "out-3.h5"));
  // The file is whole: two batches of two records.
  const auto listed = hdf5::list_datasets(folder.path() / "out-2.h5");
  REQUIRE(listed.has_value());
  REQUIRE(listed.value().size() == 2);
  CHECK(listed.value()[0].count == 12);
}

TEST_CASE("a command that a user runs replaces the files of such layers, and no job its",
          "[hdf5]") {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "out";
  REQUIRE(write_test(path, 1).has_value());
  REQUIRE(write_test(path, std::nullopt).has_value());
  const std::string commands = hdf5::writer_of(path);
  CHECK(commands == "Tautline, HDF5Output");
  REQUIRE(write_test(path, 1).has_value());
  CHECK(hdf5::writer_of(path) == commands);
  CHECK(fs::exists(folder.path() / "out-2"));
}

TEST_CASE("a file that no such layer has written is neither replaced nor passed over", "[hdf5]") {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "out.h5";
  REQUIRE(write_file_atomically(path, "mine").has_value());
  for (const std::optional<std::uint64_t> submission :
       {std::optional<std::uint64_t>(1), std::optional<std::uint64_t>()}) {
    const auto refused = write_test(path, submission);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kExists);
    CHECK(read_file(path).value() == "mine");
  }
  CHECK_FALSE(fs::exists(folder.path() / "out-2.h5"));
}

}  // namespace taut::worker
