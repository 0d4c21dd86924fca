#include "worker/data/tables/write_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "common/hdf5/hdf5_writer.hpp"
#include "proto/caffe_data.pb.h"
#include "worker/data/images/lmdb_file.hpp"
#include "worker/data/sampler.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

std::span<const float> features_of(const NumberTable& table, std::uint64_t row) {
  return std::span(table.features).subspan(row * table.columns, table.columns);
}

Result<void> write_hdf5(const NumberTable& table, const std::vector<std::uint64_t>& rows,
                        const fs::path& out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<hdf5::ArraySpec> arrays{{"data", {count, static_cast<std::int64_t>(table.columns)}}};
  const bool has_labels = !table.labels.empty();
  if (has_labels) arrays.push_back({"label", {count}});
  hdf5::remove_abandoned_drafts(out);
  TAUT_TRY(hdf5::Writer writer, hdf5::Writer::create(out, arrays));
  std::vector<float> labels;
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    TAUT_TRY(writer.write(0, i * table.columns, features_of(table, rows[i])));
    if (has_labels) labels.push_back(table.labels[rows[i]]);
  }
  if (has_labels) {
    TAUT_TRY(writer.write(1, 0, labels));
  }
  return writer.finish();
}

Result<std::string> to_datum(const NumberTable& table, std::uint64_t row) {
  caffe::Datum datum;
  datum.set_channels(static_cast<int>(table.columns));
  datum.set_height(1);
  datum.set_width(1);
  const std::span<const float> features = features_of(table, row);
  datum.mutable_float_data()->Assign(features.begin(), features.end());
  const float label = table.labels.empty() ? 0 : table.labels[row];
  constexpr float kLimit = 1U << 31U;
  if (std::floor(label) != label || label < -kLimit || label >= kLimit) {
    return invalid(
        fmt::format("row {} has label {}: an LMDB holds whole numbers as labels; write "
                    "HDF5 instead (a name with the ending .h5)",
                    row + 1, label));
  }
  datum.set_label(static_cast<int>(label));
  return datum.SerializeAsString();
}

Result<void> write_lmdb(const NumberTable& table, const std::vector<std::uint64_t>& rows,
                        const fs::path& out) {
  if (table.columns > std::numeric_limits<int>::max()) {
    return invalid(fmt::format("{} features are more than a Datum has channels", table.columns));
  }
  TAUT_TRY(const auto writer, LmdbWriter::create(out));
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    TAUT_TRY(const std::string datum, to_datum(table, rows[i]));
    TAUT_TRY(writer->add(lmdb_key(i, rows.size()), datum));
  }
  return writer->finish();
}

}  // namespace

Result<void> write_table(const NumberTable& table, const std::vector<std::uint64_t>& rows,
                         const fs::path& out) {
  const bool is_hdf5 = out.extension() == ".h5" || out.extension() == ".hdf5";
  return is_hdf5 ? write_hdf5(table, rows, out) : write_lmdb(table, rows, out);
}

Result<RowSplit> split_rows(std::uint64_t rows, double test_share, std::uint64_t seed) {
  RowSplit split;
  split.train.resize(rows);
  std::iota(split.train.begin(), split.train.end(), 0);
  if (test_share == 0) return split;
  const auto tests =
      static_cast<std::uint64_t>(std::llround(test_share * static_cast<double>(rows)));
  if (tests == 0 || tests >= rows) {
    return invalid(fmt::format("--test-share {} of {} rows leaves {} for {}: both parts need some",
                               test_share, rows, 0, tests == 0 ? "testing" : "training"));
  }
  TAUT_TRY(const auto order, shuffled_sampler(rows, {}, 1, seed));
  for (std::uint64_t i = 0; i < rows; ++i) {
    split.train[i] = order->index(Clock(static_cast<std::int64_t>(i)), 0);
  }
  const auto first = split.train.end() - static_cast<std::ptrdiff_t>(tests);
  split.test.assign(first, split.train.end());
  split.train.erase(first, split.train.end());
  return split;
}

fs::path test_name(const fs::path& out) {
  const fs::path given = out.has_filename() ? out : out.parent_path();
  fs::path name = given.parent_path() / given.stem();
  name += "_test";
  name += given.extension();
  return name;
}

}  // namespace taut::data
