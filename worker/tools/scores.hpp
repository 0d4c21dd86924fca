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
  std::uint64_t items = 0;    // in a batch
  std::uint64_t classes = 0;  // scores per item, contiguous
  bool is_probability = false;
};

/// Finds the blob of that name; without a name that of the last SoftmaxWithLoss (its bottom) or
/// Softmax (its top).
/// Errors    invalid: no such blob, or its shape is not items x classes
[[nodiscard]] Result<ScoresBlob> find_scores(const model::Graph& graph,
                                             const std::string& requested);

struct RankedClass {
  std::size_t number = 0;
  double score = 0;
};

/// The `top` best classes of an item, best first; ties: lower number first. Scores become
/// probabilities by a softmax unless they already are.
[[nodiscard]] std::vector<RankedClass> rank_classes(std::span<const float> scores,
                                                    bool is_probability, std::size_t top);

}  // namespace taut::worker
