#include "cli/views/job_words.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace taut::cli {
namespace {

constexpr std::array<std::string_view, 2> kImageLayers{"Data", "ImageData"};

bool is_text(const pb::LayerParameter& layer) {
  return layer.data_param().backend() == pb::DataParameter::TEXT;
}

bool is_sequence(const pb::LayerParameter& layer) {
  return is_text(layer) || layer.data_param().rows() || layer.has_clip_param();
}

bool is_image(const pb::LayerParameter& layer) {
  return std::ranges::find(kImageLayers, layer.type()) != kImageLayers.end();
}

}  // namespace

JobWords words_of(const pb::Job& job) {
  const auto& layers = job.net_param().layer();
  JobWords words;
  if (std::ranges::any_of(layers, is_sequence)) {
    words.records = "sequences";
  } else if (std::ranges::any_of(layers, is_image)) {
    words.records = "images";
  }
  words.has_perplexity = std::ranges::any_of(layers, is_text);
  return words;
}

}  // namespace taut::cli
