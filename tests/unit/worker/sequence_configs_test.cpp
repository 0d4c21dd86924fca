#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "worker/data/image_sequence.hpp"
#include "worker/data/text_source.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/job_data.hpp"

using namespace taut;

namespace {

const std::filesystem::path kRoot = TAUT_SOURCE_FOLDER;

/// What a data layer's records are, without the data.
RecordShape fields_of(const pb::LayerParameter& layer) {
  if (layer.data_param().backend() == pb::DataParameter::TEXT) {
    return data::text_fields(layer.text_param());
  }
  if (layer.has_clip_param()) return data::clip_fields(layer.clip_param());
  return data::row_fields(labelled_image(1, 28, 28)).value();
}

model::Graph graph_of(const pb::Job& job, pb::Phase phase) {
  model::GraphOptions options;
  options.phase = phase;
  const auto layers = model::data_of(job, phase);
  REQUIRE(layers.has_value());
  for (const auto& [layer, place] : layers.value())
    options.records[layer.name()] = fields_of(layer);
  const auto graph = model::build_graph(job.net_param(), options);
  INFO((graph ? std::string() : graph.error().message));
  REQUIRE(graph.has_value());
  return graph.value();
}

std::uint64_t parameters_in(const model::Graph& graph) {
  std::uint64_t count = 0;
  for (const TableSpec& table : graph.parameters) count += table.count();
  return count;
}

}  // namespace

TEST_CASE("the jobs over sequences settle, with as many parameters as their networks have",
          "[configs]") {
  const auto [name, parameters] = GENERATE(table<std::string, std::uint64_t>({
      // 66 * 64, 4 * 128 * (64 + 128 + 1), 4 * 128 * (128 + 128 + 1), 129 * 66
      {"char_lstm", 4224 + 98816 + 131584 + 8514},
      // 10000 * 200, two of 4 * 200 * (400 + 1), 201 * 10000
      {"word_lstm_200", 2000000 + 641600 + 2010000},
      {"word_lstm_650", 6500000 + 2 * 2600 * 1301 + 6510000},
      // 4 * 128 * (28 + 128 + 1), 129 * 10
      {"row_lstm", 80384 + 1290},
      // 66 * 64, 64 * 64, two blocks of 12 * 64 * 64 weights, 9 * 64 biases and 4 * 64 for the
      // norms, 2 * 64, 65 * 66
      {"transformer", 4224 + 4096 + 2 * (49152 + 576 + 256) + 128 + 4290},
      // 16 * 26, 32 * 401, 32 * 6 * 6 * 128 + 128, 4 * 128 * (128 + 128 + 1), 129 * 8
      {"clip_cnn_lstm", 416 + 12832 + 147584 + 131584 + 1032},
  }));
  INFO(name);
  const auto job = model::load_job(kRoot / "configs/jobs" / (name + ".textproto"));
  REQUIRE(job.has_value());
  CHECK(parameters_in(graph_of(job.value(), pb::TRAIN)) == parameters);
  CHECK(parameters_in(graph_of(job.value(), pb::TEST)) == parameters);
}
