#include "worker/text_sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/math/philox.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/graph.hpp"

namespace taut::worker {
namespace {

/// The only node that is fed, if it is fed text.
Result<const model::Node*> text_node(const model::Graph& graph) {
  const model::Node* found = nullptr;
  for (const model::Node& node : graph.nodes) {
    if (!node.is_fed) continue;
    const bool is_text = node.definition.data_param().backend() == pb::DataParameter::TEXT;
    if (!is_text || found != nullptr || node.tops.size() < 2) {
      return invalid(
          fmt::format("layer \"{}\": text is sampled from a net with one Data layer of "
                      "backend TEXT and at least two tops",
                      node.definition.name()));
    }
    found = &node;
  }
  if (found != nullptr) return found;
  return invalid(fmt::format("net \"{}\" has no Data layer of backend TEXT", graph.name));
}

/// Each unit is fed alone, so the text before it must be in a state that the net carries over.
Result<void> check_carries(const model::Graph& graph) {
  for (const model::Node& node : graph.nodes) {
    const std::string& type = node.definition.type();
    const bool recurrent = type == "RNN" || type == "LSTM" || type == "GRU";
    const pb::RecurrentParameter& parameter = node.definition.recurrent_param();
    const bool carries =
        node.bottoms.size() > 1 && parameter.carry_state() && !parameter.expose_hidden();
    if ((recurrent && !carries) || type == "MultiHeadAttention" || type == "PositionEmbed") {
      return invalid(
          fmt::format("layer \"{}\" ({}) carries no state from one step to the next; text "
                      "is sampled from recurrent layers with cont and carry_state, without "
                      "expose_hidden",
                      node.definition.name(), type));
    }
  }
  return ok();
}

/// The blob of the scores that the loss compares with the labels.
Result<std::size_t> scores_of(const model::Graph& graph, std::size_t labels) {
  for (const model::Node& node : graph.nodes) {
    if (node.definition.type() == "SoftmaxWithLoss" && node.bottoms[1] == labels) {
      return node.bottoms[0];
    }
  }
  return invalid(
      fmt::format("net \"{}\" has no SoftmaxWithLoss that reads the text's labels", graph.name));
}

}  // namespace

TextSampler::TextSampler(data::Vocabulary vocabulary, Backend& backend)
    : vocabulary_(std::move(vocabulary)), stream_(backend.make_stream()) {}

Result<model::Graph> sampling_graph(const pb::NetParameter& net) {
  pb::TextParameter step;
  step.set_steps(1);
  model::GraphOptions options;
  options.phase = pb::TEST;
  options.record = data::text_fields(step);
  options.batch = 1;
  TAUT_TRY(model::Graph graph, model::build_graph(net, options));
  TAUT_TRY(const model::Node* text, text_node(graph));
  TAUT_TRY(check_carries(graph));
  TAUT_TRY(scores_of(graph, text->tops[1]));
  return graph;
}

Result<std::unique_ptr<TextSampler>> TextSampler::create(const model::Graph& graph,
                                                         data::Vocabulary vocabulary,
                                                         const Values& values, Backend& backend) {
  TAUT_TRY(const model::Node* text, text_node(graph));
  TAUT_TRY(const std::size_t scores, scores_of(graph, text->tops[1]));
  const std::uint64_t units = model::element_count(graph.blobs[scores].shape);
  if (units != vocabulary.size()) {
    return invalid(fmt::format("the net scores {} units, and the vocabulary has {} entries", units,
                               vocabulary.size()));
  }
  if (units < 2) {
    return invalid("the vocabulary has no entry but the one for unknown units, which is not drawn");
  }
  std::unique_ptr<TextSampler> sampler(new TextSampler(std::move(vocabulary), backend));
  sampler->fed_ = text->tops.size();
  sampler->scores_name_ = graph.blobs[scores].name;
  sampler->scores_.resize(units);
  sampler->net_ = std::make_unique<Net>(graph, backend, Net::Options{});
  std::vector<float> host;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    host.resize(graph.parameters[i].count());
    TAUT_TRY(values(graph.parameters[i], host));
    DeviceBuffer& buffer = sampler->parameters_.emplace_back(backend.allocate_floats(host.size()));
    backend.copy_to_device(*sampler->stream_, host, buffer.as<float>());
    sampler->stream_->finish();
    sampler->net_->bind_value(i, buffer.as<float>());
  }
  return sampler;
}

Result<std::string> TextSampler::sample(const SampleOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return invalid(
        fmt::format("the temperature is {}; it must be at least 0", options.temperature));
  }
  const bool words = vocabulary_.unit() == data::TextUnit::kWords;
  std::string text = options.prompt;
  const auto prompt = vocabulary_.encode(options.prompt.empty() ? "\n" : options.prompt);
  std::span<const float> scores;
  for (std::size_t i = 0; i < prompt.size(); ++i) scores = advance(prompt[i], i == 0);
  for (std::size_t i = 0; i < options.length && !scores.empty(); ++i) {
    const std::uint32_t drawn = draw(scores, options, i);
    const std::string& unit = vocabulary_.entry(drawn);
    if (!words) {
      text += unit;
    } else if (unit == data::kLineEnd) {
      text += '\n';
    } else {
      if (!text.empty() && text.back() != '\n') text += ' ';
      text += unit;
    }
    scores = advance(drawn, false);
  }
  return text;
}

std::span<const float> TextSampler::advance(std::uint32_t number, bool begins) {
  const std::array<float, 4> tops{static_cast<float>(number), 0, begins ? 0.0F : 1.0F, 1};
  std::vector<std::span<const float>> fed;
  for (std::size_t i = 0; i < fed_; ++i) fed.emplace_back(&tops[i], 1);
  net_->set_batch(*stream_, fed);
  for (std::size_t layer = 0; layer < net_->layer_count(); ++layer) {
    net_->forward(layer, *stream_, Clock(0));
  }
  net_->read_blob(*stream_, scores_name_, scores_);
  return scores_;
}

std::uint32_t TextSampler::draw(std::span<const float> scores, const SampleOptions& options,
                                std::uint64_t index) const {
  const auto best = std::max_element(scores.begin() + 1, scores.end());
  if (options.temperature == 0) return static_cast<std::uint32_t>(best - scores.begin());
  std::vector<double> up_to;  // for each entry but the first: the sum of the weights up to it
  double sum = 0;
  for (std::size_t i = 1; i < scores.size(); ++i) {
    sum += std::exp((double{scores[i]} - double{*best}) / double{options.temperature});
    up_to.push_back(sum);
  }
  constexpr std::string_view kUse = "sampled text";
  const auto random =
      math::Philox::at(options.seed, math::name_stream(kUse.data(), kUse.size()), index);
  const double at = sum * double{math::unit_float(random.words[0])};
  const auto found = std::ranges::upper_bound(up_to, at);
  const auto place = std::min<std::ptrdiff_t>(found - up_to.begin(),
                                              static_cast<std::ptrdiff_t>(up_to.size()) - 1);
  return static_cast<std::uint32_t>(place + 1);
}

}  // namespace taut::worker
