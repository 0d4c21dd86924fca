#include "worker/data/hdf5_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/file.hpp"
#include "common/files/tensor_file.hpp"
#include "common/hdf5/hdf5_reader.hpp"
#include "worker/data/hdf5_array.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMaxListBytes{16ULL << 20U};
constexpr std::size_t kLabelBlock = 64U << 10U;

/// Errors: not_found, io.
Result<bool> is_hdf5(const fs::path& path) {
  TAUT_TRY(const TensorFile file, TensorFile::open(path));
  std::array<char, hdf5::kSignature.size()> head{};
  if (file.bytes() < head.size()) return false;
  TAUT_TRY(file.read_bytes(0, std::as_writable_bytes(std::span(head))));
  return std::string_view(head.data(), head.size()) == hdf5::kSignature;
}

/// The files of a source, in order. Errors: not_found; invalid, an empty list.
Result<std::vector<fs::path>> files_of(const fs::path& source) {
  TAUT_TRY(const bool is_file, is_hdf5(source));
  if (is_file) return std::vector<fs::path>{source};
  TAUT_TRY(const std::string text, read_file(source, kMaxListBytes));
  std::vector<fs::path> files;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    if (line.find('\0') != std::string::npos) {
      return invalid(
          fmt::format("{}: is neither an HDF5 file nor a list of them", source.string()));
    }
    const auto found = find_mentioned(line, source);
    if (!found) {
      return make_error(found.error().code,
                        fmt::format("{}:{}: {}", source.string(), number, found.error().message));
    }
    files.push_back(found.value());
  }
  if (!files.empty()) return files;
  return invalid(fmt::format("{}: names no HDF5 file: give a path in each line", source.string()));
}

/// The arrays of one file that the layer's tops name, in their order.
Result<std::vector<hdf5::Dataset>> arrays_of(const pb::LayerParameter& layer,
                                             const fs::path& file) {
  TAUT_TRY(const auto datasets, hdf5::list_datasets(file));
  std::vector<hdf5::Dataset> arrays;
  for (const std::string& top : layer.top()) {
    const auto found = std::ranges::find(datasets, top, &hdf5::Dataset::name);
    if (found == datasets.end()) {
      std::vector<std::string> names;
      for (const hdf5::Dataset& dataset : datasets) names.push_back(dataset.name);
      constexpr std::size_t kShown = 10;
      if (names.size() > kShown) names.resize(kShown);
      return invalid(
          fmt::format("{}: holds no array \"{}\", which layer \"{}\" has as top; it "
                      "holds \"{}\"{}",
                      file.string(), top, layer.name(), fmt::join(names, "\", \""),
                      datasets.size() > kShown ? ", ..." : ""));
    }
    arrays.push_back(*found);
  }
  return arrays;
}

/// One file's part of the records.
struct FilePart {
  std::uint64_t first = 0;  // record
  std::vector<Hdf5Array> arrays;

  [[nodiscard]] std::uint64_t records() const { return arrays.front().records(); }
};

class Hdf5Source final : public RecordSource {
 public:
  Hdf5Source(std::string name, bool shuffle) : name_(std::move(name)), shuffle_(shuffle) {}

  /// Errors: invalid, arrays that do not fit each other or the earlier files'.
  Result<void> add(const fs::path& file, std::vector<Hdf5Array> arrays) {
    RecordShape fields;
    for (const Hdf5Array& array : arrays) {
      if (array.records() != arrays.front().records()) {
        return invalid(
            fmt::format("{}: its arrays hold {} and {} records: the first extent must "
                        "be the same",
                        file.string(), arrays.front().records(), array.records()));
      }
      fields.push_back({.shape = array.shape()});
    }
    if (parts_.empty()) fields_ = fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i] == fields_[i]) continue;
      return invalid(fmt::format(
          "{}: its records are of shape {}, and those of the files before "
          "of {}",
          file.string(), fmt::join(fields[i].shape, "x"), fmt::join(fields_[i].shape, "x")));
    }
    const std::uint64_t first = size_;
    size_ += arrays.front().records();
    parts_.push_back({first, std::move(arrays)});
    return ok();
  }

  std::uint64_t size() const override { return size_; }
  const RecordShape& fields() const override { return fields_; }

  Result<void> read(std::uint64_t index, const RecordDraw& /*draw*/,
                    std::span<const std::span<float>> into) const override {
    const FilePart& part =
        *std::prev(std::ranges::upper_bound(parts_, index, {}, &FilePart::first));
    for (std::size_t field = 0; field < into.size(); ++field) {
      const auto read = part.arrays[field].read(index - part.first, into[field]);
      if (!read) {
        return make_error(read.error().code,
                          fmt::format("{}: record {}: {}", name_, index, read.error().message));
      }
    }
    return ok();
  }

  Result<void> check_labels(const LabelRange& range) const override {
    if (element_count(fields_[range.field]) != 1) return ok();
    std::vector<float> labels;
    for (const FilePart& part : parts_) {
      for (std::uint64_t first = 0; first < part.records(); first += labels.size()) {
        labels.resize(std::min<std::uint64_t>(kLabelBlock, part.records() - first));
        TAUT_TRY(part.arrays[range.field].read(first, labels));
        for (std::size_t i = 0; i < labels.size(); ++i) {
          TAUT_TRY(check_class(name_, part.first + first + i, labels[i], range));
        }
      }
    }
    return ok();
  }

  Result<std::unique_ptr<Sampler>> sampler(const FeedOptions& options) const override {
    if (options.part == Part::kTrain && !shuffle_) {
      return ordered_sampler(size_, options.share, options.batch);
    }
    return RecordSource::sampler(options);
  }

 private:
  const std::string name_;
  const bool shuffle_;
  std::uint64_t size_ = 0;
  RecordShape fields_;
  std::vector<FilePart> parts_;
};

}  // namespace

Result<std::shared_ptr<const RecordSource>> open_hdf5(const pb::LayerParameter& layer,
                                                      const fs::path& source) {
  TAUT_TRY(const std::vector<fs::path> files, files_of(source));
  auto records = std::make_shared<Hdf5Source>(source.string(), layer.hdf5_data_param().shuffle());
  for (const fs::path& file : files) {
    TAUT_TRY(const auto datasets, arrays_of(layer, file));
    std::vector<Hdf5Array> arrays;
    for (const hdf5::Dataset& dataset : datasets) {
      TAUT_TRY(Hdf5Array array, Hdf5Array::open(file, dataset));
      arrays.push_back(std::move(array));
    }
    TAUT_TRY(records->add(file, std::move(arrays)));
  }
  return std::shared_ptr<const RecordSource>(std::move(records));
}

std::optional<RecordShape> peek_hdf5(const pb::LayerParameter& layer, const fs::path& source) {
  const auto files = files_of(source);
  if (!files) return std::nullopt;
  const auto arrays = arrays_of(layer, files.value().front());
  if (!arrays) return std::nullopt;
  RecordShape fields;
  for (const hdf5::Dataset& array : arrays.value()) {
    if (array.shape.empty()) return std::nullopt;
    fields.push_back({.shape = {array.shape.begin() + 1, array.shape.end()}});
  }
  return fields;
}

}  // namespace taut::data
