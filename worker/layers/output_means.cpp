#include "worker/layers/output_means.hpp"

#include <limits>

#include "common/check.hpp"

namespace taut {

void OutputMeans::add(const std::vector<Net::Output>& outputs) {
  if (sums_.empty()) {
    for (const Net::Output& output : outputs) sums_.push_back({.name = output.name});
  }
  TAUT_CHECK(outputs.size() == sums_.size(), "every batch has the same outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].weight == 0) continue;
    sums_[i].sum += outputs[i].weight * outputs[i].value;
    sums_[i].weight += outputs[i].weight;
  }
}

std::vector<OutputMeans::Mean> OutputMeans::means() const {
  std::vector<Mean> means;
  for (const Sum& one : sums_) {
    const bool is_known = one.weight > 0;
    means.push_back({one.name,
                     is_known ? one.sum / one.weight : std::numeric_limits<double>::quiet_NaN(),
                     is_known});
  }
  return means;
}

}  // namespace taut
