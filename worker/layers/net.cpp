#include "worker/layers/net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/check.hpp"

namespace taut {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

/// The Accuracy that has the blob as its second top; nullptr if none.
const model::Node* accuracy_by_class(const model::Graph& graph, std::size_t blob) {
  for (const model::Node& node : graph.nodes) {
    if (node.definition.type() == "Accuracy" && node.tops.size() > 1 && node.tops[1] == blob) {
      return &node;
    }
  }
  return nullptr;
}

}  // namespace

Net::Net(const model::Graph& graph, Backend& backend, const Options& options)
    : graph_(graph),
      backend_(backend),
      fed_(model::fed_blobs(graph)),
      parameters_(graph.parameters.size()),
      number_(next_number()) {
  allocate_blobs();
  make_steps(options);
  share_bottom_gradients();
  for (std::size_t i = 1; i < steps_.size(); ++i) {
    if (steps_[i].has_bottoms_before) steps_[i].bottoms = steps_[i - 1].bottoms;
  }
  share_parameter_gradients();
  find_runs();
}

Net::~Net() = default;

DeviceSpan<float> Net::new_floats(std::size_t count, BufferKind kind, const std::string& name) {
  memory_.push_back(backend_.allocate_floats(count, kind, name));
  return memory_.back().as<float>();
}

std::span<const std::size_t> Net::parameters_of(std::size_t layer) const {
  return graph_.nodes[layer].parameters;
}

std::span<const std::size_t> Net::gradients_after(std::size_t layer) const {
  return steps_[layer].gradients_after;
}

void Net::bind_value(std::size_t parameter, DeviceSpan<const float> value) {
  TAUT_CHECK(value.size() == graph_.parameters[parameter].count(), "a value of another size");
  parameters_[parameter].value = value;
}

void Net::bind_gradient(std::size_t parameter, DeviceSpan<float> gradient) {
  TAUT_CHECK(gradient.size() == graph_.parameters[parameter].count(), "a gradient of another size");
  parameters_[parameter].gradient = gradient;
}

void Net::set_batch(Stream& stream, std::span<const std::span<const float>> fed) {
  TAUT_CHECK(fed.size() == fed_.size(), "a batch has one blob for each that is fed");
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    backend_.write_tensor(stream, graph_.blobs[fed_[i]].shape, fed[i], blobs_[fed_[i]].value);
  }
}

void Net::set_batch(Stream& stream, std::span<const DeviceSpan<const float>> fed) {
  TAUT_CHECK(fed.size() == fed_.size(), "a batch has one blob for each that is fed");
  for (std::size_t i = 0; i < fed_.size(); ++i) {
    backend_.copy(stream, fed[i], blobs_[fed_[i]].value);
  }
}

/// A run's calls are the same if its layers and the memory of their parameters are.
std::uint64_t Net::key_of(const Run& run, bool is_forward) const {
  std::uint64_t key = number_;
  const auto mix = [&key](std::uint64_t value) {
    key = (key ^ value) * 0x9E3779B97F4A7C15ULL;
    key ^= key >> 29U;
  };
  mix(run.first << 1U | static_cast<std::uint64_t>(is_forward));
  for (std::size_t layer = run.first; layer < run.last; ++layer) {
    for (const std::size_t parameter : graph_.nodes[layer].parameters) {
      mix(reinterpret_cast<std::uintptr_t>(parameters_[parameter].value.address()));
      if (!is_forward) {
        mix(reinterpret_cast<std::uintptr_t>(parameters_[parameter].gradient.address()));
      }
    }
  }
  return key;
}

void Net::forward(std::size_t layer, Stream& stream, Clock clock) {
  clock_ = clock;
  if (!backend_.repeats()) return forward_layer(layer, stream, clock);
  const Run& run = forward_runs_[layer];
  if (run.first == run.last || !backend_.begin_repeat(stream, key_of(run, true), clock)) return;
  try {
    for (std::size_t i = run.first; i < run.last; ++i) forward_layer(i, stream, clock);
  } catch (...) {
    backend_.abandon_repeat(stream);
    throw;
  }
  backend_.end_repeat(stream);
}

void Net::backward(std::size_t layer, Stream& stream) {
  if (!backend_.repeats()) return backward_layer(layer, stream);
  const Run& run = backward_runs_[layer];
  if (run.first == run.last || !backend_.begin_repeat(stream, key_of(run, false), clock_)) return;
  try {
    for (std::size_t i = run.last; i-- > run.first;) backward_layer(i, stream);
  } catch (...) {
    backend_.abandon_repeat(stream);
    throw;
  }
  backend_.end_repeat(stream);
}

void Net::forward_layer(std::size_t layer, Stream& stream, Clock clock) {
  Step& step = steps_[layer];
  if (step.layer == nullptr) return;
  const model::Node& node = graph_.nodes[layer];
  for (std::size_t k = 0; k < node.parameters.size(); ++k) {
    step.parameters[k].value = parameters_[node.parameters[k]].value;
    TAUT_CHECK(!step.parameters[k].value.empty(), "forward before a parameter was bound");
  }
  step.layer->forward({step.bottoms, step.tops, step.parameters}, stream, clock);
}

void Net::backward_layer(std::size_t layer, Stream& stream) {
  Step& step = steps_[layer];
  const model::Node& node = graph_.nodes[layer];
  for (const std::size_t parameter : step.without_gradient) {
    backend_.fill(stream, parameters_[parameter].gradient, 0);
  }
  if (step.layer == nullptr || !(node.needs_backward || step.has_statistics)) return;
  for (std::size_t k = 0; k < node.parameters.size(); ++k) {
    // A layer without its own forward has not received the value yet.
    step.parameters[k].value = parameters_[node.parameters[k]].value;
    if (graph_.parameters[node.parameters[k]].kind == TableKind::kFrozen) continue;
    const DeviceSpan<float> bound = parameters_[node.parameters[k]].gradient;
    TAUT_CHECK(!bound.empty(), "backward before a gradient was bound");
    step.parameters[k].gradient = step.partial[k].empty() ? bound : step.partial[k];
  }
  for (const WeightedTop& top : step.weighted_tops) {
    backend_.fill(stream, top.part.empty() ? top.gradient : top.part, top.weight);
    if (!top.part.empty()) backend_.add(stream, top.part, top.gradient);
  }
  step.layer->backward({step.bottoms, step.tops, step.parameters}, stream);
  for (const Sum& sum : step.bottom_sums) backend_.add(stream, sum.from, sum.into);
  for (std::size_t k = 0; k < node.parameters.size(); ++k) {
    if (step.partial[k].empty()) continue;
    backend_.add(stream, step.partial[k], parameters_[node.parameters[k]].gradient);
  }
}

void Net::read_blob(Stream& stream, const std::string& name, std::span<float> into) {
  for (std::size_t blob = blobs_.size(); blob-- > 0;) {
    if (graph_.blobs[blob].name != name) continue;
    read_blob(stream, blob, into);
    return;
  }
  TAUT_CHECK(false, "a blob that the graph does not have");
}

void Net::read_blob(Stream& stream, std::size_t blob, std::span<float> into) {
  backend_.read_tensor(stream, graph_.blobs[blob].shape, blobs_[blob].value, into);
  stream.finish();
}

float Net::read_number(Stream& stream, std::size_t blob) {
  float number = 0;
  backend_.copy_to_host(stream, blobs_[blob].value, std::span(&number, 1));
  stream.finish();
  return number;
}

double Net::loss(Stream& stream) {
  double sum = 0;
  for (const Loss& one : losses()) sum += double{one.weight} * read_number(stream, one.blob);
  return sum;
}

std::vector<Net::Loss> Net::losses() const {
  std::vector<Loss> all;
  for (const model::Node& node : graph_.nodes) {
    for (std::size_t i = 0; i < node.tops.size(); ++i) {
      if (node.loss_weights[i] != 0) all.push_back({node.tops[i], node.loss_weights[i]});
    }
  }
  return all;
}

std::size_t Net::loss_count() const {
  return losses().size();
}

void Net::copy_losses(Stream& stream, std::span<float> into) {
  std::size_t next = 0;
  for (const Loss& one : losses()) {
    backend_.copy_to_host(stream, blobs_[one.blob].value, into.subspan(next++, 1));
  }
}

double Net::loss_of(std::span<const float> numbers) const {
  double sum = 0;
  std::size_t next = 0;
  for (const Loss& one : losses()) sum += double{one.weight} * numbers[next++];
  return sum;
}

std::vector<DeviceSpan<float>> Net::carried_state() {
  std::vector<DeviceSpan<float>> states;
  for (const Step& step : steps_) {
    if (step.layer == nullptr) continue;
    for (const DeviceSpan<float> one : step.layer->carried_state()) states.push_back(one);
  }
  return states;
}

void Net::add_classes(Stream& stream, const model::Node& accuracy, std::vector<Output>& outputs) {
  const DeviceSpan<float> by_class = blobs_[accuracy.tops[1]].value;
  if (by_class.size() > kMaxClasses) return;
  const DeviceSpan<float> fed = blobs_[accuracy.bottoms[1]].value;
  std::vector<float> shares(by_class.size());
  std::vector<float> labels(fed.size());
  backend_.copy_to_host(stream, by_class, shares);
  backend_.copy_to_host(stream, fed, labels);
  stream.finish();
  const pb::AccuracyParameter& parameter = accuracy.definition.accuracy_param();
  std::vector<std::uint64_t> counts(shares.size());
  for (const float label : labels) {
    const bool is_ignored =
        parameter.has_ignore_label() && label == static_cast<float>(parameter.ignore_label());
    // A label that is not a class is an error elsewhere; a dry run computes nothing.
    const bool is_class = label >= 0 && label < static_cast<float>(counts.size());
    if (!is_ignored && is_class) ++counts[static_cast<std::size_t>(label)];
  }
  const std::string& name = graph_.blobs[accuracy.tops[1]].name;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    outputs.push_back({fmt::format("{}[{}]", name, k), shares[k], static_cast<double>(counts[k])});
  }
}

std::vector<Net::Output> Net::outputs(Stream& stream) {
  std::vector<Output> numbers;
  for (const std::size_t blob : graph_.outputs) {
    if (const model::Node* accuracy = accuracy_by_class(graph_, blob)) {
      add_classes(stream, *accuracy, numbers);
      continue;
    }
    if (blobs_[blob].value.size() != 1 || std::ranges::find(fed_, blob) != fed_.end()) continue;
    numbers.push_back({graph_.blobs[blob].name, read_number(stream, blob)});
  }
  return numbers;
}

}  // namespace taut
