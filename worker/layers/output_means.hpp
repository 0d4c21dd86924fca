#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "worker/layers/net.hpp"

namespace taut {

/// Means of a net's outputs over the batches of a test, weighted by each output's weight.
/// Thread    one at a time
class OutputMeans {
 public:
  struct Mean {
    std::string name;
    double value = 0;
    bool is_known = true;  // false, with value NaN: a class without a label in any batch
  };

  /// Adds one batch. REQUIRES: the same outputs in each.
  void add(const std::vector<Net::Output>& outputs);
  [[nodiscard]] std::vector<Mean> means() const;

 private:
  struct Sum {
    std::string name;
    double sum = 0;
    double weight = 0;
  };
  std::vector<Sum> sums_;
};

}  // namespace taut
