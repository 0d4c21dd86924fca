#include "worker/data/hdf5_source.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/common/hdf5_files.hpp"
#include "worker/data/feed.hpp"
#include "worker/data/open_source.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::Hdf5File;
using test::Hdf5Storage;
using test::TempFolder;

pb::LayerParameter layer_of(const std::vector<std::string>& tops = {"data", "label"},
                            bool shuffle = false) {
  pb::LayerParameter layer;
  layer.set_name("table");
  layer.set_type("HDF5Data");
  for (const std::string& top : tops) layer.add_top(top);
  layer.mutable_hdf5_data_param()->set_shuffle(shuffle);
  return layer;
}

/// Records first, first + 1, ...: "data" of shape 2 x 3 holds 10 * record + place, "label" the
/// record.
void write_records(const fs::path& path, int first, int count, const Hdf5Storage& data = {},
                   const Hdf5Storage& label = {}) {
  std::vector<double> numbers;
  std::vector<double> labels;
  for (int record = first; record < first + count; ++record) {
    for (int place = 0; place < 6; ++place) numbers.push_back(10.0 * record + place);
    labels.push_back(record);
  }
  const auto records = static_cast<hsize_t>(count);
  Hdf5File file(path);
  file.add("data", {records, 2, 3}, numbers, data);
  file.add("label", {records}, labels, label);
}

std::string refusal(const fs::path& source, const pb::LayerParameter& layer = layer_of()) {
  const auto opened = open_hdf5(layer, source);
  return opened ? "" : opened.error().message;
}

std::vector<std::uint64_t> order(const RecordSource& source, Share share, std::uint32_t batch,
                                 std::int64_t clocks, Part part = Part::kTrain) {
  const auto sampler = source.sampler({.part = part, .share = share, .batch = batch, .seed = 7});
  REQUIRE(sampler);
  std::vector<std::uint64_t> records;
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (std::uint32_t i = 0; i < batch; ++i) {
      records.push_back(sampler.value()->index(Clock(clock), i));
    }
  }
  return records;
}

}  // namespace

TEST_CASE("records of several HDF5 files follow each other, however their arrays are stored",
          "[hdf5]") {
  const TempFolder folder;
  write_records(folder.path() / "a.h5", 0, 3);
  write_records(folder.path() / "b.h5", 3, 2, {.type = H5T_IEEE_F64LE}, {.type = H5T_STD_I64LE});
  write_records(folder.path() / "c.h5", 5, 4, {.chunk = {3, 2, 3}, .deflate = true},
                {.type = H5T_STD_U8LE});
  const auto list = folder.write("list.txt", "a.h5\n\nb.h5\r\nc.h5");
  const auto source = open_source(layer_of(), {list.string(), "", ""}, Part::kTrain);
  INFO((source ? std::string() : source.error().message));
  REQUIRE(source);
  CHECK(source.value()->size() == 9);
  CHECK(source.value()->fields() == RecordShape{{.shape = {2, 3}}, {}});
  CHECK(peek_fields(layer_of(), {list.string(), "", ""}, Part::kTrain) == source.value()->fields());
  for (std::uint64_t record = 0; record < 9; ++record) {
    std::vector<float> data(6);
    std::vector<float> label(1);
    const std::vector<std::span<float>> into{data, label};
    REQUIRE(source.value()->read(record, RecordDraw(0, Clock(0), 0), into));
    CHECK(label[0] == static_cast<float>(record));
    for (std::size_t i = 0; i < 6; ++i) CHECK(data[i] == static_cast<float>(10 * record + i));
  }
}

TEST_CASE("HDF5 records are drawn in order, or shuffled if the layer requests it", "[hdf5]") {
  const TempFolder folder;
  const fs::path file = folder.path() / "a.h5";
  write_records(file, 0, 7);
  const auto ordered = open_hdf5(layer_of(), file);
  REQUIRE(ordered);
  CHECK(order(*ordered.value(), {.slot = 1, .slots = 2}, 2, 3) ==
        std::vector<std::uint64_t>{1, 3, 5, 1, 3, 5});
  CHECK(order(*ordered.value(), {.slot = 0, .slots = 2, .part = 1, .parts = 2}, 1, 3) ==
        std::vector<std::uint64_t>{2, 6, 2});
  const auto shuffled = open_hdf5(layer_of({"data", "label"}, true), file);
  REQUIRE(shuffled);
  const auto drawn = order(*shuffled.value(), {}, 7, 2);
  CHECK(drawn == order(*shuffled.value(), {}, 7, 2));
  CHECK(drawn != order(*ordered.value(), {}, 7, 2));
  std::map<std::uint64_t, int> counts;
  for (const std::uint64_t record : drawn) ++counts[record];
  CHECK(counts.size() == 7);
  CHECK(order(*shuffled.value(), {}, 7, 1, Part::kTest) ==
        std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a label of an HDF5 file that is no class is named before training", "[hdf5]") {
  const TempFolder folder;
  const fs::path file = folder.path() / "a.h5";
  write_records(file, 0, 4);
  const auto source = open_hdf5(layer_of(), file);
  REQUIRE(source);
  CHECK(source.value()->check_labels({.field = 1, .classes = 4, .ignored = {}}));
  CHECK_THAT(
      source.value()->check_labels({.field = 1, .classes = 3, .ignored = {}}).error().message,
      Contains("a.h5: record 3 has label 3, but the net has 3 classes"));
  { Hdf5File(file).add("label", {2}, {1, 1.5}); }
  const auto fractions = open_hdf5(layer_of({"label"}), file);
  REQUIRE(fractions);
  CHECK_THAT(
      fractions.value()->check_labels({.field = 0, .classes = 3, .ignored = {}}).error().message,
      Contains("record 1 has label 1.5, which is not a class: labels must be whole numbers"));
}

TEST_CASE("HDF5 files that do not fit the layer or each other are refused", "[hdf5]") {
  const TempFolder folder;
  const fs::path file = folder.path() / "a.h5";
  write_records(file, 0, 3);
  CHECK_THAT(refusal(file, layer_of({"data", "lable"})),
             Contains("a.h5: holds no array \"lable\", which layer \"table\" has as top; it holds "
                      "\"data\", \"label\""));
  CHECK_THAT(refusal(folder.write("empty.txt", "\n")), Contains("names no HDF5 file"));
  CHECK_THAT(refusal(folder.write("list.txt", "a.h5\nmissing.h5\n")),
             Contains("list.txt:2: ") && Contains("missing.h5"));
  CHECK_THAT(refusal(folder.write("bytes", std::string_view("\0\1\2\3", 4))),
             Contains("is neither an HDF5 file nor a list of them"));
  CHECK(open_hdf5(layer_of(), folder.path() / "none.h5").error().code == ErrorCode::kNotFound);
  const fs::path other = folder.path() / "other.h5";
  {
    Hdf5File wrong(other);
    wrong.add("data", {2, 6}, std::vector<double>(12, 1.0));
    wrong.add("label", {3}, {1, 2, 3});
    wrong.add("one", {}, {1});
    wrong.add("none", {0, 4}, {});
  }
  CHECK_THAT(refusal(other), Contains("its arrays hold 2 and 3 records"));
  CHECK_THAT(refusal(other, layer_of({"one"})), Contains("array \"one\" is a single number"));
  CHECK_THAT(refusal(other, layer_of({"none"})), Contains("array \"none\" holds no records"));
  write_records(other, 0, 3);
  { Hdf5File(folder.path() / "wide.h5").add("data", {2, 7}, std::vector<double>(14, 1.0)); }
  CHECK_THAT(refusal(folder.write("both.txt", "a.h5\nwide.h5\n"), layer_of({"data"})),
             Contains("wide.h5: its records are of shape 7, and those of the files before of 2x3"));
}

TEST_CASE("an HDF5 array that is not stored is refused before memory is taken for it", "[hdf5]") {
  const TempFolder folder;
  const fs::path file = folder.path() / "huge.h5";
  { Hdf5File(file).add("data", {1ULL << 40U, 4}, {}, {.chunk = {1, 4}}); }
  CHECK_THAT(refusal(file, layer_of({"data"})), Contains("huge.h5: \"data\" has 4398046511104"));
}

}  // namespace taut::data
