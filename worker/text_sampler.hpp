#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/net.pb.h"
#include "worker/data/vocabulary.hpp"
#include "worker/engine/backend.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/graph.hpp"

namespace taut::worker {

struct SampleOptions {
  std::string prompt;        // fed before the first draw; empty: the end of a line
  std::size_t length = 500;  // units to draw
  float temperature = 1;     // divides the scores; 0: always the most likely unit
  std::uint64_t seed = 1;
};

/// The TEST phase of a net over text, with batches of one unit of one stream.
/// Errors    invalid: as build_graph; no Data layer over text, or no SoftmaxWithLoss that reads its
///           labels; a net that is not recurrent, which would need the whole text for each unit
[[nodiscard]] Result<model::Graph> sampling_graph(const pb::NetParameter& net);

/// Generates text with a trained recurrent language model: each unit is drawn from the net's
/// prediction and then fed back.
/// Thread    one at a time
class TextSampler {
 public:
  /// Fills a parameter with its trained values.
  using Values = std::function<Result<void>(const TableSpec& table, std::span<float> values)>;

  /// graph     from sampling_graph
  /// Errors    invalid: a vocabulary with a size that differs from the scores', or without a unit
  ///           to draw; as `values`
  [[nodiscard]] static Result<std::unique_ptr<TextSampler>> create(const model::Graph& graph,
                                                                   data::Vocabulary vocabulary,
                                                                   const Values& values,
                                                                   Backend& backend);

  /// The prompt and the drawn text: a pure function of the parameters and the options. "<unk>" is
  /// never drawn.
  /// Errors    invalid: a temperature below 0
  [[nodiscard]] Result<std::string> sample(const SampleOptions& options);

 private:
  TextSampler(data::Vocabulary vocabulary, Backend& backend);
  /// The scores of the next unit.
  std::span<const float> advance(std::uint32_t number, bool begins);
  [[nodiscard]] std::uint32_t draw(std::span<const float> scores, const SampleOptions& options,
                                   std::uint64_t index) const;

  data::Vocabulary vocabulary_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Net> net_;
  std::vector<DeviceBuffer> parameters_;
  std::size_t fed_ = 0;      // tops of the Data layer
  std::string scores_name_;  // the blob of the scores
  std::vector<float> scores_;
};

}  // namespace taut::worker
