#include "tests/unit/layers/layer_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "common/math/philox.hpp"
#include "proto/config/text.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut::test {
namespace {

/// A net of one layer whose bottoms are inputs b0, b1, ...
std::string net_around(const std::string& definition, const std::vector<Extents>& bottoms,
                       int tops) {
  std::string net;
  std::string names;
  for (std::size_t i = 0; i < bottoms.size(); ++i) {
    net += fmt::format(
        "layer {{ name: 'in{0}' type: 'Input' top: 'b{0}' input_param {{ shape {{ {1} }} }} }}\n",
        i, fmt::format("dim: {}", fmt::join(bottoms[i], " dim: ")));
    names += fmt::format(" bottom: 'b{}'", i);
  }
  for (int i = 0; i < tops; ++i) names += i == 0 ? " top: 't'" : fmt::format(" top: 't{}'", i);
  return net + fmt::format("layer {{ name: 'tested' {} {} }}\n", names, definition);
}

}  // namespace

std::size_t count_of(const Extents& shape) {
  return model::element_count(shape);
}

Values spaced_values(std::size_t count, std::uint64_t seed, float gap) {
  std::vector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) {
    std::swap(places[i - 1], places[math::Philox::at(seed, 1, i).words[0] % i]);
  }
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t half = count / 2;
    const auto middle = static_cast<float>(half);
    values[i] = (static_cast<float>(places[i]) - middle + 0.5F) * gap;
  }
  return values;
}

Values random_values(std::size_t count, std::uint64_t seed) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 2 * math::unit_float(math::Philox::at(seed, 2, i).words[0]) - 1;
  }
  return values;
}

std::unique_ptr<Backend> cpu(int threads) {
  return make_cpu_backend({.device = DeviceKind::kCpu, .threads = threads});
}

model::Graph settle(const std::string& net, pb::Phase phase, const model::GraphOptions& options) {
  pb::NetParameter definition;
  const Result<void> parsed = parse_text(net, "net", definition);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  model::GraphOptions with_phase = options;
  with_phase.phase = phase;
  Result<model::Graph> graph = model::build_graph(definition, with_phase);
  if (!graph) throw std::runtime_error(graph.error().message);
  return std::move(graph).value();
}

LayerBench::LayerBench(const std::string& definition, std::vector<Extents> shapes,
                       const Setup& setup)
    : bottom_shapes(std::move(shapes)),
      backend_(setup.backend ? setup.backend : tested_backend(setup.threads)),
      stream_(backend_->make_stream()),
      graph_(settle(net_around(definition, bottom_shapes, setup.tops), setup.phase)),
      in_place_(setup.in_place) {
  const model::Node& node = graph_.nodes.back();
  for (std::size_t i = 0; i < bottom_shapes.size(); ++i) {
    differentiable.push_back(node.passes_gradient[i]);
    const std::size_t count = count_of(bottom_shapes[i]);
    bottoms.push_back(random_values(count, 10 + i));
    bottom_gradients.emplace_back(count);
    bottom_tensors_.push_back(
        {new_floats(count), differentiable[i] ? new_floats(count) : DeviceSpan<float>()});
  }
  for (const std::size_t top : node.tops) {
    const Extents& shape = top_shapes.emplace_back(graph_.blobs[top].shape);
    tops.emplace_back(count_of(shape));
    const bool is_unread = std::ranges::count(setup.unread, tops.size() - 1) > 0;
    top_gradients.push_back(is_unread ? Values(count_of(shape))
                                      : random_values(count_of(shape), 20 + top));
    top_tensors_.push_back(
        in_place_ ? bottom_tensors_[0]
                  : Tensor{new_floats(count_of(shape)),
                           is_unread ? DeviceSpan<float>() : new_floats(count_of(shape))});
  }
  for (const std::size_t index : node.parameters) {
    const Extents& shape = parameter_shapes.emplace_back(graph_.parameters[index].shape);
    parameters.push_back(random_values(count_of(shape), 30 + index));
    parameter_gradients.emplace_back(count_of(shape));
    parameter_values_.push_back(new_floats(count_of(shape)));
    parameter_tensors_.push_back({parameter_values_.back(), new_floats(count_of(shape))});
  }
  layer_ = make_layer(*backend_, {.node = node,
                                  .bottoms = bottom_shapes,
                                  .tops = top_shapes,
                                  .bottom_gradients = differentiable,
                                  .training = setup.phase == pb::TRAIN,
                                  .seed = setup.seed,
                                  .slot = setup.slot,
                                  .index = setup.index});
}

DeviceSpan<float> LayerBench::new_floats(std::size_t count) {
  memory_.push_back(backend_->allocate_floats(count));
  return memory_.back().as<float>();
}

void LayerBench::poison(DeviceSpan<float> span) {
  backend_->fill(*stream_, span, std::numeric_limits<float>::quiet_NaN());
}

void LayerBench::forward(Clock clock) {
  for (const Tensor& top : top_tensors_) poison(top.value);
  for (std::size_t i = 0; i < bottoms.size(); ++i) {
    backend_->write_tensor(*stream_, bottom_shapes[i], bottoms[i], bottom_tensors_[i].value);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    backend_->copy_to_device(*stream_, parameters[i], parameter_values_[i]);
  }
  layer_->forward(ports(), *stream_, clock);
  for (std::size_t i = 0; i < tops.size(); ++i) {
    backend_->read_tensor(*stream_, top_shapes[i], top_tensors_[i].value, tops[i]);
  }
  stream_->finish();
}

void LayerBench::backward() {
  for (const Tensor& bottom : bottom_tensors_) poison(bottom.gradient);
  for (const Parameter& parameter : parameter_tensors_) poison(parameter.gradient);
  for (std::size_t i = 0; i < tops.size(); ++i) {
    if (top_tensors_[i].gradient.empty()) continue;
    backend_->write_tensor(*stream_, top_shapes[i], top_gradients[i], top_tensors_[i].gradient);
  }
  layer_->backward(ports(), *stream_);
  for (std::size_t i = 0; i < bottoms.size(); ++i) {
    if (!differentiable[i]) continue;
    backend_->read_tensor(*stream_, bottom_shapes[i], bottom_tensors_[i].gradient,
                          bottom_gradients[i]);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    backend_->copy_to_host(*stream_, parameter_tensors_[i].gradient, parameter_gradients[i]);
  }
  stream_->finish();
}

}  // namespace taut::test
