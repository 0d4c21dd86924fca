#include "worker/data/sparse/sparse_source.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/feed.hpp"
#include "worker/data/open_source.hpp"
#include "worker/data/sparse/feature_hash.hpp"
#include "worker/data/sparse/sparse_records.hpp"
#include "worker/data/sparse/text_window.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using test::TempFolder;

pb::LayerParameter layer_of(std::uint64_t features) {
  pb::LayerParameter layer;
  layer.set_name("records");
  layer.set_type("SparseData");
  for (const char* top : {"numbers", "values", "label"}) layer.add_top(top);
  layer.mutable_sparse_data_param()->set_features(features);
  return layer;
}

/// Columns a and b of categories, x of numbers, y of the label.
pb::LayerParameter table_layer(std::uint64_t features) {
  pb::LayerParameter layer = layer_of(features);
  pb::SparseDataParameter& given = *layer.mutable_sparse_data_param();
  given.set_format(pb::SparseDataParameter::TABLE);
  given.add_category("a");
  given.add_category("b");
  given.add_number("x");
  given.set_label("y");
  return layer;
}

std::shared_ptr<const RecordSource> opened(const fs::path& path, const pb::LayerParameter& layer) {
  auto source = open_sparse(layer, path, Part::kTest);
  INFO((source ? std::string() : source.error().message));
  REQUIRE(source.has_value());
  return source.value();
}

struct Read {
  std::vector<std::uint32_t> numbers;
  std::vector<float> values;
  float label = 0;
  friend bool operator==(const Read&, const Read&) = default;
};

Read read(const RecordSource& source, std::uint64_t index) {
  const auto places = static_cast<std::size_t>(source.fields()[0].shape[0]);
  std::vector<float> bits(places, -7);
  Read record{{}, std::vector<float>(places, -7), -7};
  const std::vector<std::span<float>> into = {bits, record.values, std::span(&record.label, 1)};
  REQUIRE(source.read(index, RecordDraw(1, Clock(0), 0), into).has_value());
  for (const float one : bits) record.numbers.push_back(std::bit_cast<std::uint32_t>(one));
  return record;
}

/// What a text's refusal for training says after the file's name.
std::string refusal(const std::string& text, const pb::LayerParameter& layer) {
  const TempFolder folder;
  const fs::path path = folder.write("set", text);
  const auto source = open_sparse(layer, path, Part::kTrain);
  if (source) return "";
  REQUIRE(source.error().message.starts_with(path.string()));
  return source.error().message.substr(path.string().size());
}

}  // namespace

TEST_CASE("LIBSVM's lines become numbers from 0, values and labels of 0 and 1", "[sparse]") {
  const TempFolder folder;
  const fs::path path = folder.write("set",
                                     "-1 2:0.5 4294967296:-1e-1 # a comment\r\n"
                                     "\n# nothing\n"
                                     "+1 1:1 3:0 7:1 9:2\n"
                                     "-1");
  const auto source = opened(path, layer_of(1ULL << 32U));
  REQUIRE(source->size() == 3);
  CHECK(source->has_row_numbers());
  CHECK(source->fields() == RecordShape{{.shape = {3}}, {.shape = {3}}, {}});
  CHECK(read(*source, 0) == Read{{1, 4294967295U, 4294967295U}, {0.5F, -0.1F, 0}, 0});
  CHECK(read(*source, 1) == Read{{0, 6, 8}, {1, 1, 2}, 1});  // a value of 0 is left out
  CHECK(read(*source, 2) == Read{{0, 0, 0}, {0, 0, 0}, 0});
}

TEST_CASE("labels other than -1 and 1 stay as they are", "[sparse]") {
  const TempFolder folder;
  const auto several = opened(folder.write("three", "0 1:1\n2 1:1\n1 1:1\n"), layer_of(5));
  CHECK(read(*several, 1).label == 2);
  CHECK(several->check_labels({.field = 2, .classes = 3, .ignored = {}}).has_value());
  CHECK_THAT(several->check_labels({.field = 2, .classes = 2, .ignored = {}}).error().message,
             EndsWith("three: record 1 has label 2, but the net has 2 classes (0 to 1)"));
  const auto targets = opened(folder.write("targets", "-1 1:1\n0.25 1:1\n"), layer_of(5));
  CHECK(read(*targets, 0).label == -1);
  CHECK_THAT(targets->check_labels({.field = 2, .classes = 2, .ignored = -1}).error().message,
             EndsWith("record 1 has label 0.25, which is not a class: labels must be whole "
                      "numbers"));
  const auto signs = opened(folder.write("signs", "-1 1:1\n1 1:1\n"), layer_of(5));
  CHECK(signs->check_labels({.field = 2, .classes = 2, .ignored = {}}).has_value());
}

TEST_CASE("a line that is not LIBSVM's is refused at its place with the way out", "[sparse]") {
  pb::LayerParameter layer = layer_of(123);
  CHECK(refusal("1 1:1\nyes 1:1\n", layer) ==
        ":2:1: \"yes\" is not a label: a line must start with a number");
  CHECK(refusal("1 1:1 2\n", layer) == ":1:7: \"2\" must be INDEX:VALUE");
  CHECK(refusal("1 1:x\n", layer) == ":1:3: \"1:x\" must be INDEX:VALUE");
  CHECK(refusal("1 1:nan\n", layer) == ":1:3: \"1:nan\" must be INDEX:VALUE");
  CHECK(refusal("1 -1:1\n", layer) == ":1:3: \"-1:1\" must be INDEX:VALUE");
  CHECK(refusal("1 99999999999999999999:1\n", layer) ==
        ":1:3: \"99999999999999999999:1\" must be INDEX:VALUE");
  CHECK(refusal("1 5:1 5:1\n", layer) == ":1:7: index 5 follows 5: indices must ascend");
  CHECK(refusal("1 0:1\n", layer) ==
        ":1:3: number 0: numbers must start from 1; write the file that way (scikit-learn: "
        "zero_based=False)");
  CHECK(refusal("1 1:1\n1 123:1 124:1\n", layer) ==
        ":2:9: number 124 is beyond sparse_data_param.features, 123: raise it to the highest "
        "number of all files");
  CHECK(refusal("# nothing\n", layer) == ": holds no record");
  layer.mutable_sparse_data_param()->set_max_features(2);
  CHECK(refusal("1 1:1 2:1\n1 1:1 2:1 3:1\n", layer) ==
        ":2: has 3 features, and sparse_data_param.max_features is 2: raise it, or omit it");
  CHECK_THAT(refusal(std::string(TextWindow::kMaxBytes + 1, '1'), layer),
             Contains(":1: is longer than the limit of 16777216 bytes"));
  const auto missing = open_sparse(layer, "no/such/file", Part::kTrain);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK_THAT(missing.error().message, Contains("scripts/get_data a9a"));
}

TEST_CASE("a record without features is refused in training, where it would update a row",
          "[sparse]") {
  const std::string rest =
      ": has no feature, so that training has no row to update for it: omit the record, or give "
      "each record one more feature, the same for all";
  CHECK(refusal("1 1:1\n\n-1 # nothing\n", layer_of(123)) == ":3" + rest);
  CHECK(refusal("1 1:1\n1 5:0\n", layer_of(123)) == ":2" + rest);
  CHECK(refusal("a,b,x,y\nr,s,1,1\n,,0,1\n", table_layer(1000)) == ":3" + rest);
  // A test updates no row: the logit of such a record is a model's bias.
  const TempFolder folder;
  const auto source = opened(folder.write("set", "1\n0 7:2\n"), layer_of(123));
  CHECK(read(*source, 0) == Read{{0}, {0}, 1});
  CHECK(read(*source, 1) == Read{{6}, {2}, 0});
}

TEST_CASE("a table's categories and columns of numbers become hashed features", "[sparse]") {
  const TempFolder folder;
  pb::LayerParameter layer = table_layer(1000);
  const auto source = opened(folder.write("t.csv",
                                          "\xEF\xBB\xBFid,a,\"x\",b,y\r\n"
                                          "1,red,-2.5,\"x, \"\"y\"\"\nz\",1\n\n"
                                          "2,,0,red,0\n"
                                          "3,red,,,1"),
                             layer);
  const std::uint32_t red = ColumnHash("a").number("red", 1000);
  const std::uint32_t other_red = ColumnHash("b").number("red", 1000);
  CHECK(red != other_red);
  REQUIRE(source->size() == 3);
  CHECK(read(*source, 0) ==
        Read{{red, ColumnHash("b").number("x, \"y\"\nz", 1000), ColumnHash("x").number(1000)},
             {1, 1, -2.5F},
             1});
  // An empty field, and a value of 0, are features that the record does not have.
  CHECK(read(*source, 1) == Read{{other_red, other_red, other_red}, {1, 0, 0}, 0});
  CHECK(read(*source, 2) == Read{{red, red, red}, {1, 0, 0}, 1});
  layer.mutable_sparse_data_param()->set_separator("\t");
  const auto tabs = opened(folder.write("t.tsv", "y\tx\tb\ta\n1\t3\t\tred\n"), layer);
  CHECK(read(*tabs, 0) == Read{{red, ColumnHash("x").number(1000)}, {1, 3}, 1});
}

TEST_CASE("the hash of a feature is the same for ever", "[sparse]") {
  // By a separate program, in Python: see FNV-1a and SplitMix64's last steps.
  constexpr std::uint64_t kAll = 1ULL << 32U;
  CHECK(ColumnHash("").number(kAll) == 1805975344);
  CHECK(ColumnHash("age").number(kAll) == 2409642616U);
  CHECK(ColumnHash("age").number("", kAll) == 2477410098U);
  CHECK(ColumnHash("city").number("Z\xC3\xBCrich", kAll) == 2231878367U);
  CHECK(ColumnHash("city").number("Z\xC3\xBCrich", 1000) == 375);
  CHECK(ColumnHash("city").number("Z\xC3\xBCrich", 1) == 0);
}

TEST_CASE("a line that does not fit a table's head is refused at its place", "[sparse]") {
  const pb::LayerParameter layer = table_layer(1000);
  const std::string head = "a,b,x,y\n";
  CHECK(refusal("", layer) == ": is empty: the first line must name the columns");
  CHECK(refusal("a,x,y\n", layer) ==
        ": has no column \"b\", which sparse_data_param.category names: its first line has a, x, "
        "y");
  CHECK(refusal("a,b,x\n", layer) ==
        ": has no column \"y\", which sparse_data_param.label names: its first line has a, b, x");
  CHECK(refusal(head + "r,s,1\n", layer) ==
        ":2: has 3 fields, and the first line names 4 columns: is sparse_data_param.separator "
        "right?");
  CHECK(
      refusal(head + "r,s,1,1\nr,s,much,1\n", layer) ==
      ":3:5: column \"x\" holds \"much\", which is not a finite number: name it as a category, or "
      "leave the field empty");
  CHECK(
      refusal(head + "r,s,1,yes\n", layer) ==
      ":2:7: column \"y\" holds \"yes\", which is not a finite number: number the classes from 0");
  CHECK(refusal(head + "r,\"s\n", layer) == ":2:3: a quoted field has no closing quote");
  CHECK(refusal(head + "r,\"s\"t,1,1\n", layer) == ":2: column 6: text follows a closing quote");
  CHECK(refusal(head, layer) == ": holds no record");
}

TEST_CASE("files that are read in many pieces give the records of one", "[sparse]") {
  const TempFolder folder;
  std::string svm;
  std::string csv = "y,a,b,x\n";
  const int records = 90'000;  // some MB
  for (int i = 0; i < records; ++i) {
    svm += fmt::format("{} 1:{} {}:2\n", i % 2, i + 1, i + 2);
    csv += fmt::format("{},\"{}\n{}\",text of the second,{}\n", i % 2, i, i, i + 1);
  }
  const auto check = [&](const fs::path& path, const pb::LayerParameter& layer, std::size_t at) {
    const auto source = opened(path, layer);
    REQUIRE(source->size() == records);
    for (int i = 0; i < records; ++i) {
      const Read record = read(*source, static_cast<std::uint64_t>(i));
      if (record.label != static_cast<float>(i % 2) ||
          record.values[at] != static_cast<float>(i + 1)) {
        FAIL("record " << i);
      }
    }
  };
  check(folder.write("set", svm), layer_of(100'000), 0);
  check(folder.write("t.csv", csv), table_layer(1ULL << 32U), 2);
  const std::string packed = (folder.path() / "set.gz").string();
  const gzFile out = gzopen(packed.c_str(), "wb1");
  gzwrite(out, svm.data(), static_cast<unsigned>(svm.size()));
  REQUIRE(gzclose(out) == Z_OK);
  check(packed, layer_of(100'000), 0);
}

TEST_CASE("records take 4 or 8 bytes a feature, and a limit ends the reading", "[sparse]") {
  SparseRecords ones(Bytes(64U << 20U));
  SparseRecords valued(Bytes(64U << 20U));
  const std::vector<SparseFeature> of_ones(100, {5, 1});
  const std::vector<SparseFeature> of_values(100, {5, 0.5F});
  const std::uint64_t records = 50'000;
  for (std::uint64_t i = 0; i < records; ++i) {
    REQUIRE(ones.add(1, of_ones).has_value());
    REQUIRE(valued.add(1, of_values).has_value());
  }
  const auto each = [&](const SparseRecords& all) {
    return static_cast<double>(all.bytes().value()) / static_cast<double>(records);
  };
  // The last block, of 1 Mi features, has room to grow.
  CHECK(each(ones) == Approx(4 * 100 + 8).epsilon(0.25));
  CHECK(each(valued) == Approx(8 * 100 + 8).epsilon(0.25));
  CHECK(ones.at(records - 1).values.empty());
  CHECK(valued.at(records - 1).values[99] == 0.5F);

  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "1 1:1 2:0.5\n";
  const fs::path path = folder.write("set", text);
  const auto refused = open_sparse(layer_of(2), path, Part::kTrain, Bytes(1U << 20U));
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             Contains("the records up to here take more than the 1 MiB that they may") &&
                 Contains("divide the file"));
}

TEST_CASE("a record of ones before the first other value keeps its ones", "[sparse]") {
  SparseRecords records(Bytes(1U << 20U));
  REQUIRE(records.add(1, std::vector<SparseFeature>{{1, 1}, {2, 1}}).has_value());
  REQUIRE(records.add(-1, std::vector<SparseFeature>{{3, 1}, {4, 0.5F}, {5, 1}}).has_value());
  CHECK(std::vector(records.at(0).values.begin(), records.at(0).values.end()) ==
        std::vector<float>{1, 1});
  CHECK(std::vector(records.at(1).values.begin(), records.at(1).values.end()) ==
        std::vector<float>{1, 0.5F, 1});
  CHECK(records.has_signs_only());
  CHECK(records.most_features() == 3);
}

TEST_CASE("workers share the records of a set, shuffled or in their order", "[sparse]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 12; ++i) text += fmt::format("{} 1:1\n", i);
  const fs::path path = folder.write("set", text);
  for (const bool shuffled : {true, false}) {
    pb::LayerParameter layer = layer_of(1);
    layer.mutable_sparse_data_param()->set_shuffle(shuffled);
    const auto source = open_source(layer, {path.string(), "", ""}, Part::kTrain);
    REQUIRE(source.has_value());
    std::multiset<float> seen;
    for (const std::uint32_t slot : {0U, 1U}) {
      const auto feed = record_feed(
          source.value(),
          {.part = Part::kTrain, .share = {.slot = slot, .slots = 2}, .batch = 3, .seed = 5}, 3);
      REQUIRE(feed.has_value());
      for (int clock = 0; clock < 2; ++clock) {
        std::vector<float> numbers(3);
        std::vector<float> values(3);
        std::vector<float> labels(3);
        const std::vector<std::span<float>> tops = {numbers, values, labels};
        REQUIRE(feed.value()->fill(Clock(clock), tops).has_value());
        if (!shuffled) CHECK(labels[0] == static_cast<float>(slot + 6 * clock));
        seen.insert(labels.begin(), labels.end());
      }
    }
    for (int i = 0; i < 12; ++i) CHECK(seen.count(static_cast<float>(i)) == 1);
  }
}

TEST_CASE("the shape of a set's records is known before training", "[sparse]") {
  const TempFolder folder;
  const fs::path path = folder.write("set", "1 1:1 2:1\n1 5:1\n");
  pb::LayerParameter layer = layer_of(5);
  const RecordShape two{{.shape = {2}}, {.shape = {2}}, {}};
  CHECK(peek_fields(layer, {path.string(), "", ""}, Part::kTrain) == two);
  CHECK_FALSE(peek_fields(layer, {"no/such/file", "", ""}, Part::kTrain).has_value());
  layer.mutable_sparse_data_param()->set_max_features(40);
  const auto given = peek_fields(layer, {path.string(), "", ""}, Part::kTrain);
  REQUIRE(given.has_value());
  CHECK((*given)[0].shape == std::vector<std::int64_t>{40});
  CHECK(opened(path, layer)->fields() == *given);
}

TEST_CASE("a layer whose fields cannot be is refused before its file is read", "[sparse]") {
  const auto error_of = [](const pb::LayerParameter& layer) {
    return open_sparse(layer, "no/such/file", Part::kTrain).error().message;
  };
  CHECK_THAT(error_of(layer_of(0)), Contains("features must be from 1 to 2^32"));
  CHECK_THAT(error_of(layer_of((1ULL << 32U) + 1)), Contains("features must be from 1 to 2^32"));
  pb::LayerParameter layer = table_layer(5);
  layer.mutable_sparse_data_param()->set_separator("");
  CHECK_THAT(error_of(layer), Contains("separator one character"));
}

}  // namespace taut::data
