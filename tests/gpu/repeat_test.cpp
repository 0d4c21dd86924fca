#include <algorithm>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/tested_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/layers/layer_bench.hpp"
#include "worker/layers/net.hpp"

using namespace taut;
using namespace taut::test;

namespace {

constexpr const char* kNet = R"(
layer { name: 'in' type: 'Data' top: 'data' top: 'label' }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
        convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
        pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'drop' type: 'Dropout' bottom: 'pool' top: 'pool' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }
layer { name: 'last' type: 'InnerProduct' bottom: 'ip' top: 'last'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' })";

/// Without markers, so that all its steps are one call of cuDNN's.
constexpr const char* kSequenceNet = R"(
layer { name: 'in' type: 'Data' top: 'data' top: 'label' }
layer { name: 'steps' type: 'Reshape' bottom: 'data' top: 'steps'
        reshape_param { shape { dim: 12 dim: 8 dim: 12 } } }
layer { name: 'lstm' type: 'LSTM' bottom: 'steps' top: 'lstm'
        recurrent_param { num_output: 16 num_layers: 2 last_step: true
                          weight_filler { type: 'xavier' } } }
layer { name: 'last' type: 'InnerProduct' bottom: 'lstm' top: 'last'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' })";

/// Trains a net for some clocks on batches that differ, each table in one of two buffers in turn,
/// and returns the losses and the last values.
Values train(Backend& backend, int clocks, const char* definition, bool deterministic) {
  backend.set_math({.deterministic = deterministic});
  const auto stream = backend.make_stream();
  Net net(settle(definition, pb::TRAIN, {.record = labelled_image(1, 12, 12), .batch = 8}), backend,
          {.seed = 3, .slot = 1});
  struct Table {
    DeviceBuffer values[2];
    DeviceBuffer gradient;
  };
  std::vector<Table> tables(net.parameters().size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TableSpec& spec = net.parameters()[i];
    Values first(spec.count());
    math::fill(spec.filler, 1, spec.name, 0, first);
    for (DeviceBuffer& values : tables[i].values) values = backend.allocate_floats(spec.count());
    tables[i].gradient = backend.allocate_floats(spec.count());
    backend.copy_to_device(*stream, first, tables[i].values[0].as<float>());
    stream->finish();
    net.bind_gradient(i, tables[i].gradient.as<float>());
  }
  Values seen;
  for (int clock = 0; clock < clocks; ++clock) {
    const Values images = random_values(8 * 144, static_cast<std::uint64_t>(100 + clock));
    const Values labels{0, 1, 2, 0, 1, 2, 0, 1};
    net.set_batch(*stream, {images, labels});
    for (std::size_t i = 0; i < tables.size(); ++i) {
      net.bind_value(i, tables[i].values[clock % 2].as<float>());
    }
    for (std::size_t i = 0; i < net.layer_count(); ++i) net.forward(i, *stream, Clock(clock));
    for (std::size_t i = net.layer_count(); i-- > 0;) net.backward(i, *stream);
    for (Table& table : tables) {
      const Term terms[]{{table.values[clock % 2].as<float>(), 1.0F},
                         {table.gradient.as<float>(), -0.1F}};
      backend.weighted_sum(*stream, terms, table.values[1 - clock % 2].as<float>());
    }
    seen.push_back(static_cast<float>(net.loss(*stream)));
  }
  for (Table& table : tables) {
    Values values(table.gradient.as<float>().size());
    backend.copy_to_host(*stream, table.values[clocks % 2].as<float>(), values);
    stream->finish();
    seen.insert(seen.end(), values.begin(), values.end());
  }
  backend.set_math({});
  return seen;
}

}  // namespace

TEST_CASE("a replayed recording has the bits of the queued work", "[gpu]") {
  const auto choice = make_backend({.device = DeviceKind::kCuda, .cuda_graphs = false});
  REQUIRE(choice);
  const Values queued = train(*choice.value().backend, 12, kNet, true);
  const Values replayed = train(*cuda_device(), 12, kNet, true);
  CHECK(replayed == queued);
  // Dropout draws again at every clock, also where it is replayed; so losses continue differing.
  CHECK(std::adjacent_find(queued.begin(), queued.begin() + 12) == queued.begin() + 12);
}

TEST_CASE("a fused recurrent layer is recorded and replayed like all others", "[gpu]") {
  const auto choice = make_backend({.device = DeviceKind::kCuda, .cuda_graphs = false});
  REQUIRE(choice);
  const Values queued = train(*choice.value().backend, 12, kSequenceNet, false);
  const Values replayed = train(*cuda_device(), 12, kSequenceNet, false);
  CHECK(relative_error(replayed, queued) <= 1e-4);
  CHECK(std::adjacent_find(queued.begin(), queued.begin() + 12) == queued.begin() + 12);
}
