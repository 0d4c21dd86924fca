// A file of sparse records, read piece by piece: records within the layer's limits, or a refusal
// that says where. The same text is read as LIBSVM's, by both of its readers, and as a table. The
// first byte is the separator.
#include <cmath>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "common/files/file.hpp"
#include "tests/fuzz/driver/memory_folder.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temp_folder.hpp"
#include "worker/data/sparse/read_records.hpp"
#include "worker/data/tables/number_table.hpp"

namespace taut {
namespace {

constexpr std::uint64_t kFeatures = 1000;

/// The records' number, or -1 if the file is refused.
std::int64_t read(const pb::SparseDataParameter& layer, const std::string& path, bool ascends) {
  std::int64_t records = 0;
  const auto read = data::read_records(
      layer, path, [&](float label, std::span<const data::SparseFeature> features) -> Result<void> {
        TAUT_CHECK(std::isfinite(label), "a label is a number");
        for (std::size_t i = 0; i < features.size(); ++i) {
          TAUT_CHECK(features[i].number < kFeatures, "a number is below the features");
          TAUT_CHECK(std::isfinite(features[i].value) && features[i].value != 0,
                     "a value is a number");
          TAUT_CHECK(!ascends || i == 0 || features[i - 1].number < features[i].number,
                     "LIBSVM's numbers ascend");
        }
        ++records;
        return ok();
      });
  if (read) return records;
  TAUT_CHECK(read.error().message.starts_with(path + ":"), "a refusal says where");
  return -1;
}

void judge(const std::string& path, char separator) {
  pb::SparseDataParameter layer;
  layer.set_features(kFeatures);
  const std::int64_t records = read(layer, path, true);
  // What both readers of the text read is the same.
  const auto dense = data::parse_svm(read_file(path).value(), {}, path);
  if (dense && records >= 0) {
    TAUT_CHECK(dense.value().rows == static_cast<std::uint64_t>(records), "as many records");
  }
  layer.set_format(pb::SparseDataParameter::TABLE);
  layer.set_separator(std::string(1, separator));
  layer.add_category("a");
  layer.add_number("b");
  layer.set_label("c");
  read(layer, path, false);
}

}  // namespace

std::vector<std::string> fuzz::samples() {
  return {",+1 1:0.5 7:1 1000:-2e3\n-1 # nothing\n\n-1 2:1\r\n",
          ",1 1:1 1:1\n",
          ",a,b,c\nred,1.5,0\n\"x, \"\"y\"\"\nz\",,1\r\n",
          "\tb\tc\ta\n-1\t1\tblue\n",
          ",\xEF\xBB\xBFz,c,b,a\n1,2,3\n",
          {}};
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const taut::test::TempFolder folder = taut::fuzz::memory_folder();
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  taut::judge(folder.write("file", bytes).string(), static_cast<char>(data[0]));
  return 0;
}
