#include "worker/data/tables/number_table.hpp"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/hdf5/hdf5_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/open_source.hpp"
#include "worker/data/tables/write_table.hpp"

namespace taut::data {
namespace {

using Catch::Matchers::Contains;
using test::TempFolder;
using Floats = std::vector<float>;

TableOptions labelled(const std::string& label) {
  TableOptions options;
  options.label = label;
  return options;
}

std::string csv_error(const std::string& text, const TableOptions& options = {}) {
  const auto table = parse_csv(text, options, "t.csv");
  return table ? "" : table.error().message;
}
std::string svm_error(const std::string& text, const TableOptions& options = {}) {
  const auto table = parse_svm(text, options, "t.svm");
  return table ? "" : table.error().message;
}
std::string npy_error(const std::string& bytes, const TableOptions& options = {}) {
  const auto table = parse_npy(bytes, options, "t.npy");
  return table ? "" : table.error().message;
}

template <class Number>
std::string npy(const std::string& type, const std::string& more, std::vector<Number> numbers) {
  std::string head = "{'descr': '" + type + "', " + more + ", }";
  head.resize((10 + head.size() + 64) / 64 * 64 - 10, ' ');
  head.back() = '\n';
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(head.size() & 0xffU);
  bytes += static_cast<char>(head.size() >> 8U);
  bytes += head;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
  return bytes;
}

}  // namespace

TEST_CASE("a CSV with a header, quotes and labels of text becomes features and classes",
          "[table]") {
  const auto table = parse_csv(
      "\xEF\xBB\xBFid,\"width, cm\",species,height\r\n"
      "1,5.1,\"rose \"\"red\"\"\",+3\r\n\r\n"
      "2, 4.9 ,iris,-2e-1\n"
      "3,7,iris,0",
      {.label = "species", .drop = {"id"}, .header = {}, .separator = ',', .classes = false},
      "t.csv");
  INFO((table ? std::string() : table.error().message));
  REQUIRE(table);
  CHECK(table.value().rows == 3);
  CHECK(table.value().columns == 2);
  CHECK(table.value().features == Floats{5.1F, 3, 4.9F, -0.2F, 7, 0});
  CHECK(table.value().labels == Floats{1, 0, 0});
  CHECK(table.value().classes == std::vector<std::string>{"iris", "rose \"red\""});
}

TEST_CASE("a CSV without a header is read from its first line on", "[table]") {
  const auto flowers = parse_csv("5.1,a\n4.9,b\n", labelled("2"), "t.csv");
  REQUIRE(flowers);
  CHECK(flowers.value().rows == 2);
  TableOptions options = labelled("1");
  options.separator = ';';
  options.header = true;  // names that are numbers
  const auto pixels = parse_csv("1;2;3\n7;8;9\n", options, "t.csv");
  REQUIRE(pixels);
  CHECK(pixels.value().features == Floats{8, 9});
  CHECK(pixels.value().labels == Floats{7});
  CHECK(pixels.value().classes.empty());
}

TEST_CASE("labels that are numbers stay numbers, or are numbered on request", "[table]") {
  const std::string text = "x,y\n1,10\n2,-3\n3,2.5\n4,10\n";
  CHECK(parse_csv(text, labelled("y"), "t.csv").value().labels == Floats{10, -3, 2.5F, 10});
  TableOptions classes = labelled("y");
  classes.classes = true;
  const auto table = parse_csv(text, classes, "t.csv");
  REQUIRE(table);
  CHECK(table.value().labels == Floats{2, 0, 1, 2});
  CHECK(table.value().classes == std::vector<std::string>{"-3", "2.5", "10"});
}

TEST_CASE("invalid CSV is reported at its line and column", "[table]") {
  CHECK(
      csv_error("a,b\n1,2\n3,x y\n") ==
      "t.csv:3:3: column \"b\" holds \"x y\": features must be finite numbers; --drop b leaves the "
      "column out");
  CHECK_THAT(csv_error("a,b\n1,\n"), Contains("t.csv:2:3: column \"b\" is empty"));
  CHECK_THAT(csv_error("1,nan\n"), Contains("t.csv:1:3: column \"2\" holds \"nan\""));
  CHECK_THAT(csv_error("1,1e99\n"), Contains("t.csv:1:3: "));
  CHECK_THAT(csv_error("a,b\n1,2\n\n1,2,3\n"), Contains("t.csv:4: has 3 fields, and the lines"));
  CHECK_THAT(csv_error("a,b\n\"1\n2\",3\n\"4"), Contains("t.csv:2:1: column \"a\" holds"));
  CHECK_THAT(csv_error("1,2\n\"4"), Contains("t.csv:2:1: a quoted field has no closing quote"));
  CHECK_THAT(csv_error("\"1\"2,3\n"), Contains("t.csv:1: column 4: text follows a closing quote"));
  CHECK_THAT(csv_error("a,b\n1,2\n", labelled("c")),
             Contains("t.csv: has no column \"c\": name one of a, b, or its number from 1 to 2"));
  CHECK_THAT(csv_error("1,2\n", labelled("3")), Contains("its 2 columns by its number"));
  CHECK_THAT(csv_error("a,b\n"), Contains("t.csv: holds no row of numbers"));
  CHECK_THAT(csv_error(""), Contains("holds no row"));
  CHECK_THAT(csv_error("a\n1\n", labelled("a")), Contains("no feature is left"));
  CHECK_THAT(csv_error(std::string("1,\0", 3)), Contains("byte 0"));
}

TEST_CASE("LIBSVM's sparse text becomes dense rows", "[table]") {
  const auto table = parse_svm("+1 1:0.5 3:-2 # first\n\n-1 2:1e1\n", {}, "t.svm");
  INFO((table ? std::string() : table.error().message));
  REQUIRE(table);
  CHECK(table.value().columns == 3);
  CHECK(table.value().features == Floats{0.5F, 0, -2, 0, 10, 0});
  CHECK(table.value().labels == Floats{1, -1});
  TableOptions wide;
  wide.columns = 4;
  wide.classes = true;
  const auto fixed = parse_svm("+1 0:7\n-1 3:1\n", wide, "t.svm");  // indices from 0
  REQUIRE(fixed);
  CHECK(fixed.value().features == Floats{7, 0, 0, 0, 0, 0, 0, 1});
  CHECK(fixed.value().classes == std::vector<std::string>{"-1", "1"});
  wide.columns = 2;
  CHECK_THAT(svm_error("1 3:1\n", wide),
             Contains("index 3, which is beyond the requested 2 features"));
  CHECK(svm_error("1 1:1\nx 1:1\n") ==
        "t.svm:2:1: \"x\" is not a label: a line must start with a number");
  CHECK_THAT(svm_error("1 1:1 qid:3\n"), Contains("t.svm:1:7: \"qid:3\" must be INDEX:VALUE"));
  CHECK_THAT(svm_error("1 2:1 2:3\n"), Contains("t.svm:1:7: index 2 follows 2"));
  CHECK_THAT(svm_error("1 4000000000:1\n"), Contains("must be at most 16777216, is 4000000000"));
  CHECK_THAT(svm_error("# nothing\n"), Contains("t.svm: holds no row"));
  CHECK_THAT(svm_error("1 1:1\n", labelled("a")), Contains("omit --label and --drop"));
}

TEST_CASE("NumPy arrays of every kind of number are read in both orders", "[table]") {
  const std::string shape = "'fortran_order': False, 'shape': (2, 3)";
  const auto floats =
      parse_npy(npy<float>("<f4", shape, {1, 2, 3, 4, 5, 6}), labelled("3"), "t.npy");
  INFO((floats ? std::string() : floats.error().message));
  REQUIRE(floats);
  CHECK(floats.value().features == Floats{1, 2, 4, 5});
  CHECK(floats.value().labels == Floats{3, 6});
  const auto whole = parse_npy(
      npy<std::int64_t>("<i8", "'fortran_order': True, 'shape': (2, 3)", {1, 4, 2, 5, 3, 6}), {},
      "t.npy");
  REQUIRE(whole);
  CHECK(whole.value().features == Floats{1, 2, 3, 4, 5, 6});
  CHECK(parse_npy(npy<std::uint8_t>("|u1", shape, {1, 2, 3, 4, 5, 255}), {}, "t.npy")
            .value()
            .features.back() == 255);
  CHECK(parse_npy(npy<std::uint16_t>("<f2", shape, {0, 0, 0, 0, 0, 0x3c00}), {}, "t.npy")
            .value()
            .features.back() == 1);
}

TEST_CASE("NumPy arrays that are cut, damaged or of another kind are refused", "[table]") {
  const std::string shape = "'fortran_order': False, 'shape': (2, 3)";
  const std::string whole = npy<float>("<f4", shape, {1, 2, 3, 4, 5, 6});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (npy_error(whole.substr(0, size)).empty()) FAIL("cut at " << size << " it is taken");
  }
  CHECK_THAT(npy_error(whole + "x"), Contains("do not fit the 25 bytes after its header"));
  CHECK_THAT(npy_error(npy<float>(">f4", shape, {1, 2, 3, 4, 5, 6})),
             Contains("elements of type '>f4'; little-endian numbers are read"));
  CHECK_THAT(
      npy_error(npy<float>("<f4", "'fortran_order': False, 'shape': (6,)", {1, 2, 3, 4, 5, 6})),
      Contains("its shape must be (rows, columns)"));
  CHECK_THAT(npy_error(npy<float>(
                 "<f4", "'fortran_order': False, 'shape': (4611686018427387904, 4)", {1})),
             Contains("truncated or damaged"));
  CHECK_THAT(npy_error(npy<float>("<f4", shape, {1, 2, 3, 4, 5, NAN})),
             Contains("t.npy: row 2, column 3 holds nan"));
}

TEST_CASE("a table converted to HDF5 or an LMDB is read back unchanged by data layers", "[table]") {
  const TempFolder folder;
  const auto table = parse_csv("a,b,y\n1,2,0\n3,4,1\n5,6,0\n", labelled("y"), "t.csv");
  REQUIRE(table);
  for (const bool is_hdf5 : {true, false}) {
    const auto out = folder.path() / (is_hdf5 ? "t.h5" : "t_lmdb");
    REQUIRE(write_table(table.value(), {2, 0}, out));
    pb::LayerParameter layer;
    layer.set_type(is_hdf5 ? "HDF5Data" : "Data");
    layer.add_top("data");
    layer.add_top("label");
    const auto source = open_source(layer, {out.string(), "", ""}, Part::kTrain);
    INFO((source ? std::string() : source.error().message));
    REQUIRE(source);
    REQUIRE(source.value()->size() == 2);
    Floats data(2);
    Floats label(1);
    const std::vector<std::span<float>> into{data, label};
    REQUIRE(source.value()->read(0, RecordDraw(0, Clock(0), 0), into));
    CHECK(data == Floats{5, 6});
    REQUIRE(source.value()->read(1, RecordDraw(0, Clock(0), 0), into));
    CHECK(data == Floats{1, 2});
  }
  const auto fractions = parse_csv("1,0.5\n", labelled("2"), "t.csv");
  CHECK_THAT(write_table(fractions.value(), {0}, folder.path() / "lmdb").error().message,
             Contains("row 1 has label 0.5: an LMDB holds whole numbers as labels"));
}

TEST_CASE("a table converted to HDF5 replaces the drafts of processes that have ended", "[table]") {
  const TempFolder folder;
  const auto table = parse_csv("1,0\n", labelled("2"), "t.csv");
  REQUIRE(table);
  const auto out = folder.path() / "t.h5";
  // Of no process, as numbers end at 4194304; a part of a download; of a process that lives.
  const std::string start = "\x89HDF\r\n\x1a\n";
  const auto ended = folder.write("t.h5.part4194305", start + "and a part");
  const auto download = folder.write("t.h5.part4194306", "and so on");
  const auto living = folder.write("t.h5.part" + std::to_string(getppid()), start);
  REQUIRE(write_table(table.value(), {0}, out));
  CHECK(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(ended));
  CHECK(std::filesystem::exists(download));
  CHECK(std::filesystem::exists(living));
}

TEST_CASE("rows for testing are drawn from the seed, and the others are for training", "[table]") {
  const auto split = split_rows(10, 0.3, 5);
  REQUIRE(split);
  CHECK(split.value().train.size() == 7);
  CHECK(split.value().test.size() == 3);
  std::set<std::uint64_t> all(split.value().train.begin(), split.value().train.end());
  all.insert(split.value().test.begin(), split.value().test.end());
  CHECK(all.size() == 10);
  CHECK(split_rows(10, 0.3, 5).value().test == split.value().test);
  CHECK(split_rows(10, 0.3, 6).value().test != split.value().test);
  CHECK(split_rows(3, 0, 1).value().train == std::vector<std::uint64_t>{0, 1, 2});
  CHECK_THAT(split_rows(3, 0.1, 1).error().message, Contains("leaves 0 for testing"));
  CHECK(test_name("a/iris.h5") == "a/iris_test.h5");
  CHECK(test_name("lmdb") == "lmdb_test");
}

TEST_CASE("rows for testing are next to an output that is named with a slash at its end",
          "[table]") {
  CHECK(test_name("a/lmdb/") == "a/lmdb_test");
  CHECK(test_name("lmdb/") == "lmdb_test");
}

}  // namespace taut::data
