// When the layers' gradients and values pass a worker's link, and what sending early saves.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "lab/training/records/virtual_timeline.hpp"
#include "lab/training/training_run.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/lab/tiny_training.hpp"
#include "worker/model/job/job.hpp"

namespace taut::lab {
namespace {

using Layers = std::vector<std::size_t>;

// Layer i has kWidths[i - 1] x kWidths[i] weights: one slice each, of a size by which its messages
// are recognized. The last four together are less than the 4 MiB that a client sends to a shard
// before it has an answer, and the last five more.
constexpr std::array<std::size_t, 9> kWidths = {440, 450, 460, 470, 480, 490, 500, 510, 514};
constexpr double kBytesPerUs = 125;  // 1 Gbit/s

std::string net_of_eight_layers() {
  std::string net = fmt::format(
      "layer {{ name: 'in' type: 'DummyData' top: 'top0' top: 'label' dummy_data_param {{ "
      "shape {{ dim: 4 dim: {} }} shape {{ dim: 4 }} data_filler {{ type: 'gaussian' std: 1 }} "
      "data_filler {{ type: 'constant' value: 1 }} }} }}\n",
      kWidths[0]);
  for (std::size_t i = 1; i < kWidths.size(); ++i) {
    net += fmt::format(
        "layer {{ name: 'ip{0}' type: 'InnerProduct' bottom: 'top{1}' top: 'top{0}' "
        "inner_product_param {{ num_output: {2} bias_term: false weight_filler {{ type: 'xavier' "
        "}} }} }}\n",
        i, i - 1, kWidths[i]);
  }
  return net +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'top8' bottom: 'label' top: "
         "'loss' }\n";
}

/// A worker and a server behind cards of 1 Gbit/s.
TrainingOptions of_eight_layers(int clocks, double clock_ms) {
  const test::TempFolder folder;
  folder.write("job.textproto",
               fmt::format("name: 'layers' workers: 1 consistency {{ mode: BSP }}\n"
                           "solver_param {{ base_lr: 0.0001 max_iter: {} }}\n"
                           "net_param {{ name: 'layers'\n{} }}\n",
                           clocks, net_of_eight_layers()));
  auto loaded = model::load_job(folder.path() / "job.textproto");
  if (!loaded) FAIL(loaded.error().message);
  auto cluster =
      parse_lab_cluster(fmt::format("host {{ name: 's' cores: 4 workers: 0 servers: 1 "
                                    "link: 'card' }}\n"
                                    "host {{ name: 'w' cores: 4 servers: 0 link: 'card' }}\n"
                                    "link {{ name: 'card' gbit_per_s: 1 latency_us: 10 }}\n"
                                    "compute {{ clock_ms: {} }}\n",
                                    clock_ms),
                        "cluster");
  if (!cluster) FAIL(cluster.error().message);
  TrainingOptions options;
  options.job = std::move(loaded.value());
  options.cluster = std::move(cluster.value());
  options.records.set_metrics(false);
  return options;
}

/// The layer whose values a message on a link has by its size; 0: none.
std::size_t layer_in(const VirtualTimeline::Span& span) {
  constexpr double kHeaders_us = 20;  // more than they take
  const auto took_us = static_cast<double>((span.end - span.begin).count());
  for (std::size_t i = 1; i < kWidths.size(); ++i) {
    const auto bytes = static_cast<double>(sizeof(float) * kWidths[i - 1] * kWidths[i]);
    if (std::abs(took_us - bytes / kBytesPerUs) < kHeaders_us) return i;
  }
  return 0;
}

/// The messages with a layer's values on a link, by when they set out.
std::vector<VirtualTimeline::Span> layers_on(const VirtualTimeline& timeline,
                                             const std::string& link) {
  std::vector<VirtualTimeline::Span> spans;
  for (const VirtualTimeline::Span& span : timeline.drawn()) {
    const bool is_here = span.row.kind == VirtualTimeline::Kind::kLink &&
                         timeline.name_of(span.row) == link && layer_in(span) > 0;
    if (is_here) spans.push_back(span);
  }
  std::ranges::sort(spans, {}, &VirtualTimeline::Span::begin);
  return spans;
}

Layers layers_in(const std::vector<VirtualTimeline::Span>& spans) {
  Layers layers;
  for (const VirtualTimeline::Span& span : spans) layers.push_back(layer_in(span));
  return layers;
}

}  // namespace

TEST_CASE(
    "gradients leave in backward's order, those that have to wait in the order of forward, "
    "and values return as they left",
    "[lab]") {
  const Layers order = {8, 7, 6, 5, 1, 2, 3, 4};
  TrainingOptions options = of_eight_layers(2, 3);
  const auto timeline = VirtualTimeline::open({}).value();
  options.timeline = timeline.get();
  CHECK(run_to_end(options).job.state() == pb::DONE);

  auto out = layers_on(*timeline, "w out");
  REQUIRE(out.size() == 16);
  const Layers second = layers_in({out.begin() + 8, out.end()});
  out.resize(8);
  CHECK(layers_in(out) == order);
  CHECK(second == order);

  auto in = layers_on(*timeline, "w in");
  // The first values of all came before.
  std::erase_if(in, [&](const auto& span) { return span.begin < out.front().begin; });
  REQUIRE(in.size() >= 8);
  in.resize(8);
  CHECK(layers_in(in) == order);

  // The last layer's gradient is on its way while backward of the other seven is computed.
  const auto meanwhile = std::ranges::count_if(timeline->drawn(), [&](const auto& span) {
    return span.row.kind == VirtualTimeline::Kind::kCompute && span.end > out.front().begin &&
           span.end < out.back().begin;
  });
  CHECK(meanwhile >= 7);
}

TEST_CASE("a clock takes longer where its updates leave together at its end", "[lab]") {
  // A clock computes for about as long as its gradients pass the link.
  TrainingOptions options = of_eight_layers(10, 60);
  const TrainingOutcome at_once = run_to_end(options);
  options.overlap = false;
  const TrainingOutcome together = run_to_end(options);
  CHECK(together.virtual_s > at_once.virtual_s + 0.1);
  CHECK(together.job.parameters_sha256() == at_once.job.parameters_sha256());
}

}  // namespace taut::lab
