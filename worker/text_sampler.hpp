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
#include "worker/backend/backend.hpp"
#include "worker/data/vocabulary.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/graph.hpp"

namespace taut::worker {

struct SampleOptions {
  std::string prompt;        // read before anything is drawn; empty: a line's end
  std::size_t length = 500;  // units that are drawn
  float temperature = 1;     // divides the scores; 0 takes the likeliest unit
  std::uint64_t seed = 1;
};

/// The TEST phase of a net over text, for one unit of one stream.
/// Errors    invalid: as build_graph; no Data layer over text, or no SoftmaxWithLoss that reads its
///           labels; a net that is not recurrent, as it would have to see the whole text at each unit
[[nodiscard]] Result<model::Graph> sampling_graph(const pb::NetParameter& net);

/// Writes text with a trained recurrent language model: unit by unit, each drawn from what the net
/// says of the next one and then fed back.
/// Thread    one at a time
class TextSampler {
 public:
  /// Fills a parameter with its trained values.
  using Values = std::function<Result<void>(const TableSpec& table, std::span<float> values)>;

  /// graph     as sampling_graph settles it
  /// Errors    invalid: a vocabulary of another size than the net's scores; as `values`
  [[nodiscard]] static Result<std::unique_ptr<TextSampler>> create(const model::Graph& graph,
                                                                   data::Vocabulary vocabulary,
                                                                   const Values& values,
                                                                   Backend& backend);

  /// The prompt and what was drawn: a pure function of the parameters and the options. "<unk>" is
  /// never drawn.
  /// Errors    invalid: a temperature below 0
  [[nodiscard]] Result<std::string> sample(const SampleOptions& options);

 private:
  TextSampler(data::Vocabulary vocabulary, Backend& backend);
  /// The scores of what may follow.
  std::span<const float> advance(std::uint32_t number, bool begins);
  [[nodiscard]] std::uint32_t draw(std::span<const float> scores, const SampleOptions& options,
                                   std::uint64_t index) const;

  data::Vocabulary vocabulary_;
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Net> net_;
  std::vector<DeviceBuffer> parameters_;
  std::size_t fed_ = 0;      // tops of the Data layer
  std::string scores_name_;  // the blob with the scores
  std::vector<float> scores_;
};

}  // namespace taut::worker
