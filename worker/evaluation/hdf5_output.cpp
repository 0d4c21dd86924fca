#include "worker/evaluation/hdf5_output.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/hdf5/hdf5_reader.hpp"
#include "common/log.hpp"

namespace taut::worker {
namespace {

constexpr const char* kArrayNames[] = {"data", "label"};

// The start of the mark in every file that such a layer writes.
constexpr const char* kWriter = "Tautline, HDF5Output";

/// The mark by which a later test recognizes a file that it may replace.
std::string mark_of(std::optional<std::uint64_t> submission) {
  return submission ? fmt::format("{}, job {:016x}", kWriter, *submission) : std::string(kWriter);
}

/// The path of file `number`: OUT.h5, OUT-2.h5, ...
std::filesystem::path numbered(const std::filesystem::path& path, int number) {
  if (number == 1) return path;
  std::filesystem::path name = path.stem();
  name += fmt::format("-{}", number);
  name += path.extension();
  return path.parent_path() / name;
}

/// Errors: exists, a file that no such layer wrote: the name is probably a mistake.
Result<void> check_name(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return ok();
  if (hdf5::writer_of(path).starts_with(kWriter)) return ok();
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: exists, and no HDF5Output layer has written it; remove it, or "
                                "give another hdf5_output_param.file_name",
                                path));
}

}  // namespace

Hdf5Output::Hdf5Output(const model::Graph& graph, std::optional<std::uint64_t> submission)
    : mark_(mark_of(submission)), is_of_job_(submission.has_value()) {
  for (const model::Node& node : graph.nodes) {
    if (node.definition.type() != "HDF5Output") continue;
    File file{node.definition.name(), node.definition.hdf5_output_param().file_name(), {}};
    for (const std::size_t blob : node.bottoms) {
      const model::Shape& shape = graph.blobs[blob].shape;
      file.arrays.push_back({blob, shape, std::vector<float>(model::element_count(shape))});
    }
    files_.push_back(std::move(file));
  }
}

Result<void> Hdf5Output::begin(std::uint64_t batches) {
  writers_.clear();
  batch_ = 0;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    for (std::size_t before = 0; before < i; ++before) {
      if (files_[before].path != file.path) continue;
      return make_error(ErrorCode::kExists,
                        fmt::format("layers \"{}\" and \"{}\" both write {}: give each its own "
                                    "hdf5_output_param.file_name",
                                    files_[before].layer, file.layer, file.path));
    }
    TAUT_TRY(check_name(file.path));
    std::vector<hdf5::ArraySpec> specs;
    for (std::size_t k = 0; k < file.arrays.size(); ++k) {
      specs.push_back({kArrayNames[k], file.arrays[k].shape});
      specs.back().shape[0] *= static_cast<std::int64_t>(batches);
    }
    TAUT_TRY(hdf5::Writer writer, hdf5::Writer::create(file.path, specs, mark_));
    writers_.push_back(std::move(writer));
  }
  return ok();
}

void Hdf5Output::read(Net& net, Stream& stream) {
  for (File& file : files_) {
    for (Array& array : file.arrays) net.read_blob(stream, array.blob, array.values);
  }
}

Result<void> Hdf5Output::write() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (std::size_t k = 0; k < files_[i].arrays.size(); ++k) {
      const std::vector<float>& values = files_[i].arrays[k].values;
      TAUT_TRY(writers_[i].write(k, batch_ * values.size(), values));
    }
  }
  ++batch_;
  return ok();
}

Result<std::filesystem::path> Hdf5Output::put_in_place(const File& file, hdf5::Writer& writer) {
  if (!is_of_job_) {
    TAUT_TRY(writer.finish());
    return std::filesystem::path(file.path);
  }
  for (int number = 1;; ++number) {
    std::filesystem::path path = numbered(file.path, number);
    if (hdf5::writer_of(path) == mark_) {
      TAUT_TRY(writer.finish_as(path));
      return path;
    }
    const auto done = writer.finish_as_new(path);
    if (done) return path;
    if (done.error().code != ErrorCode::kExists) return done.error();
  }
}

Result<void> Hdf5Output::finish() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    TAUT_TRY(const auto path, put_in_place(files_[i], writers_[i]));
    log::info("layer \"{}\": {} batches are in {}{}", files_[i].layer, batch_, path.string(),
              path == files_[i].path ? "" : ", as that name has another run's file");
  }
  writers_.clear();
  return ok();
}

}  // namespace taut::worker
