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

// By which a later test knows that it may replace a file.
constexpr const char* kWriter = "Tautline, HDF5Output";

/// Errors: exists, a file that is something else and would be lost.
Result<void> check_replaceable(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || hdf5::writer_of(path) == kWriter) return ok();
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: exists, and no HDF5Output layer has written it; remove it, or "
                                "give another hdf5_output_param.file_name",
                                path));
}

}  // namespace

Hdf5Output::Hdf5Output(const model::Graph& graph) {
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
    TAUT_TRY(check_replaceable(file.path));
    std::vector<hdf5::ArraySpec> specs;
    for (std::size_t k = 0; k < file.arrays.size(); ++k) {
      specs.push_back({kArrayNames[k], file.arrays[k].shape});
      specs.back().shape[0] *= static_cast<std::int64_t>(batches);
    }
    TAUT_TRY(hdf5::Writer writer, hdf5::Writer::create(file.path, specs, kWriter));
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

Result<void> Hdf5Output::finish() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    TAUT_TRY(writers_[i].finish());
    log::info("layer \"{}\": {} batches are in {}", files_[i].layer, batch_, files_[i].path);
  }
  writers_.clear();
  return ok();
}

}  // namespace taut::worker
