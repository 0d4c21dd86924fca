#include "worker/model/job/job_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "common/files/file.hpp"
#include "worker/model/phase.hpp"
#include "worker/model/rules/layer_rule.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;

bool is_for(const pb::DataSource& source, pb::Phase phase) {
  return source.phase() == phase || (!source.has_phase() && source.has_folder());
}

Result<void> check_source(const pb::DataSource& source) {
  const bool files = source.has_images() || source.has_labels();
  if (files != source.has_folder() && source.has_images() == source.has_labels()) return ok();
  return invalid("data: give a folder, or both images and labels");
}

/// The job's last entry for a layer in a phase, if any.
const pb::DataSource* entry_for(const pb::Job& job, pb::Phase phase, const std::string& layer) {
  for (int i = job.data_size(); i-- > 0;) {
    const pb::DataSource& source = job.data(i);
    if (is_for(source, phase) && (!source.has_layer() || source.layer() == layer)) return &source;
  }
  return nullptr;
}

/// The file that a layer names itself.
struct OwnFile {
  const char* parameter;
  std::optional<std::string> source;
  const char* reads;  // what it must be, for messages; nullptr: a job may also give two files
  const char* names;
};

std::optional<OwnFile> own_file_of(const pb::LayerParameter& layer) {
  const auto own_file = [](const char* parameter, const auto& given, const char* reads,
                           const char* names) {
    return OwnFile{parameter, given.has_source() ? std::optional(given.source()) : std::nullopt,
                   reads, names};
  };
  if (layer.type() == "ImageData") {
    return own_file("image_data_param", layer.image_data_param(), nullptr, nullptr);
  }
  if (layer.type() == "HDF5Data") {
    return own_file("hdf5_data_param", layer.hdf5_data_param(), "HDF5",
                    "the file, or a list of files,");
  }
  if (layer.type() == "SparseData") {
    return own_file("sparse_data_param", layer.sparse_data_param(), "a table", "the file");
  }
  return std::nullopt;
}

Result<DataPlace> place_of(const pb::LayerParameter& layer, const pb::DataSource* entry) {
  const bool is_text = layer.data_param().backend() == pb::DataParameter::TEXT;
  if (entry != nullptr && is_text && !entry->has_folder()) {
    return invalid(fmt::format("layer \"{}\" reads a text: name it with data {{ folder: ... }}",
                               layer.name()));
  }
  const std::optional<OwnFile> own = own_file_of(layer);
  if (entry != nullptr && own && own->reads && !entry->has_folder()) {
    return invalid(fmt::format("layer \"{}\" reads {}: name {} with data {{ folder: ... }}",
                               layer.name(), own->reads, own->names));
  }
  if (entry != nullptr) return DataPlace{entry->folder(), entry->images(), entry->labels()};
  if (own && own->source) return DataPlace{*own->source, "", ""};
  if (own) {
    return invalid(fmt::format("layer \"{}\": {}.source is missing", layer.name(), own->parameter));
  }
  const pb::DataParameter& data = layer.data_param();
  if (is_text && !data.has_source()) {
    return invalid(
        fmt::format("layer \"{}\" names no text: give data_param.source, or the job's "
                    "data {{ folder: ... }}",
                    layer.name()));
  }
  if (!data.has_source()) return DataPlace{kDefaultDataFolder, "", ""};
  // Published nets say LEVELDB for data that was converted long ago, so the folder's files decide.
  const fs::path folder = data.source();
  std::error_code ignored;
  const bool may_be_leveldb =
      !fs::exists(folder / "data.mdb", ignored) &&
      (!fs::exists(folder, ignored) || fs::exists(folder / "CURRENT", ignored));
  if (data.backend() != pb::DataParameter::LEVELDB || !may_be_leveldb) {
    return DataPlace{data.source(), "", ""};
  }
  return invalid(fmt::format(
      "layer \"{}\" names the LEVELDB \"{}\", which is not supported: convert its images to an "
      "LMDB "
      "with tautline convert, or name another data set with the job's data {{ folder: ... }}, or "
      "with --data",
      layer.name(), data.source()));
}

bool has_layer(const pb::NetParameter& net, const std::string& name) {
  return std::ranges::any_of(net.layer(),
                             [&](const pb::LayerParameter& layer) { return layer.name() == name; });
}

/// Errors: invalid, an entry that cannot be used, or one for a layer that is in no phase.
Result<void> check_sources(const pb::Job& job) {
  for (const pb::DataSource& source : job.data()) {
    TAUT_TRY(check_source(source));
    if (!source.has_layer() || has_layer(job.net_param(), source.layer()) ||
        std::ranges::any_of(job.solver_param().test_net_param(),
                            [&](const auto& net) { return has_layer(net, source.layer()); })) {
      continue;
    }
    return invalid(fmt::format("data: the net has no layer \"{}\"", source.layer()));
  }
  return ok();
}

std::string absolute_if_found(const std::string& path, const fs::path& mentioned_in) {
  const auto found = find_mentioned(path, mentioned_in);
  if (!found) return path;
  std::error_code failed;
  const fs::path absolute = fs::absolute(found.value(), failed);
  return failed ? path : absolute.lexically_normal().string();
}

}  // namespace

Result<std::vector<LayerData>> data_of(const pb::Job& job, const NetChoice& choice) {
  TAUT_TRY(check_sources(job));
  TAUT_TRY(auto layers, layers_of_phase(net_of(job, choice), choice.phase));
  std::vector<LayerData> found;
  for (pb::LayerParameter& layer : layers) {
    const auto rule = find_rule(layer.type());
    if (!rule || !rule.value()->is_fed || layer.type() == "DummyData") continue;
    TAUT_TRY(DataPlace place, place_of(layer, entry_for(job, choice.phase, layer.name())));
    found.push_back({std::move(layer), std::move(place)});
  }
  return found;
}

std::vector<std::string> missing_data(const DataPlace& place) {
  std::vector<std::string> lines;
  for (const std::string& path : {place.folder, place.images, place.labels}) {
    std::error_code ignored;
    if (!path.empty() && !fs::exists(path, ignored)) {
      lines.push_back(fmt::format("data \"{}\" does not exist; training needs it", path));
    }
  }
  return lines;
}

void settle_data_paths(const fs::path& job_path, pb::Job& job) {
  for (pb::DataSource& source : *job.mutable_data()) {
    for (std::string* path : {source.has_folder() ? source.mutable_folder() : nullptr,
                              source.has_images() ? source.mutable_images() : nullptr,
                              source.has_labels() ? source.mutable_labels() : nullptr}) {
      if (path != nullptr) *path = absolute_if_found(*path, job_path);
    }
  }
}

void settle_net_paths(const fs::path& net_path, pb::NetParameter& net) {
  for (pb::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.text_param().has_vocabulary_source()) {
      std::string& text = *layer.mutable_text_param()->mutable_vocabulary_source();
      text = absolute_if_found(text, net_path);
    }
    pb::DataParameter* data = layer.has_data_param() ? layer.mutable_data_param() : nullptr;
    pb::ImageDataParameter* images =
        layer.has_image_data_param() ? layer.mutable_image_data_param() : nullptr;
    if (layer.infogain_loss_param().has_source()) {
      std::string& file = *layer.mutable_infogain_loss_param()->mutable_source();
      file = absolute_if_found(file, net_path);
    }
    if (layer.hdf5_data_param().has_source()) {
      std::string& file = *layer.mutable_hdf5_data_param()->mutable_source();
      file = absolute_if_found(file, net_path);
    }
    if (layer.sparse_data_param().has_source()) {
      std::string& file = *layer.mutable_sparse_data_param()->mutable_source();
      file = absolute_if_found(file, net_path);
    }
    pb::TransformationParameter* transform =
        layer.has_transform_param() ? layer.mutable_transform_param() : nullptr;
    const auto if_set = [](bool is_set, auto&& field) { return is_set ? field() : nullptr; };
    for (std::string* path :
         {if_set(data != nullptr && data->has_source(), [&] { return data->mutable_source(); }),
          if_set(data != nullptr && data->has_mean_file(),
                 [&] { return data->mutable_mean_file(); }),
          if_set(images != nullptr && images->has_source(),
                 [&] { return images->mutable_source(); }),
          if_set(images != nullptr && images->has_root_folder(),
                 [&] { return images->mutable_root_folder(); }),
          if_set(transform != nullptr && transform->has_mean_file(),
                 [&] { return transform->mutable_mean_file(); })}) {
      if (path != nullptr) *path = absolute_if_found(*path, net_path);
    }
  }
}

}  // namespace taut::model
