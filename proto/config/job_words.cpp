#include "proto/config/job_words.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace taut {
namespace {

constexpr std::array<std::string_view, 2> kImageLayers{"Data", "ImageData"};

bool is_text(const pb::LayerParameter& layer) {
  return layer.data_param().backend() == pb::DataParameter::TEXT;
}

bool is_sequence(const pb::LayerParameter& layer) {
  const bool is_clip = layer.has_clip_param() && layer.type() == "Data";  // else Caffe's Clip
  return is_text(layer) || layer.data_param().rows() || is_clip;
}

bool is_image(const pb::LayerParameter& layer) {
  return std::ranges::find(kImageLayers, layer.type()) != kImageLayers.end();
}

bool is_table(const pb::LayerParameter& layer) {
  return layer.type() == "HDF5Data";
}

}  // namespace

JobWords words_of(const pb::Job& job) {
  const auto& layers = job.net_param().layer();
  JobWords words;
  if (std::ranges::any_of(layers, is_sequence)) {
    words.records = "sequences";
  } else if (std::ranges::any_of(layers, is_image)) {
    words.records = "images";
  } else if (std::ranges::any_of(layers, is_table)) {
    words.records = "rows";
  }
  words.items = words.records;
  const auto text = std::ranges::find_if(layers, is_text);
  if (text != layers.end()) {
    words.has_perplexity = true;
    words.items = "tokens";
    words.items_per_record = std::max(1U, text->text_param().steps());
  }
  return words;
}

}  // namespace taut
