#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/model/graph.hpp"

namespace taut::worker {

/// The blob of a net with the scores of classes.
struct ScoresBlob {
  std::string name;
  std::uint64_t items = 0;    // of a batch
  std::uint64_t classes = 0;  // scores per item, contiguous
  bool is_probability = false;
};

/// Finds it: the blob of that name; else the bottom of the last SoftmaxWithLoss, or the top of the
/// last Softmax.
/// Errors    invalid: there is none, or its shape is not items x classes
[[nodiscard]] Result<ScoresBlob> find_scores(const model::Graph& graph,
                                             const std::string& requested);

struct RankedClass {
  std::size_t number = 0;
  double score = 0;
};

/// The `top` best classes of an item, best first; scores become probabilities by a softmax
/// unless they already are. Of equal ones, the lower number comes first.
[[nodiscard]] std::vector<RankedClass> rank_classes(std::span<const float> scores,
                                                    bool is_probability, std::size_t top);

}  // namespace taut::worker
