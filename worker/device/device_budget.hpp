#pragma once

#include <memory>
#include <string>

#include "common/types.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/plan/planned_backend.hpp"

namespace taut::worker {

/// A job's backend: the device, or with a budget the device within it.
class BudgetedBackend {
 public:
  /// budget  of device memory, for all of the job's allocations; 0: no limit
  BudgetedBackend(Backend& device, Bytes budget);

  [[nodiscard]] Backend& backend() const { return planned_ ? *planned_ : device_; }

  /// The bytes that the training needs, has and moves, in one line; empty: no budget, or no plan
  /// yet.
  [[nodiscard]] std::string summary() const;
  /// The whole plan of the training, as a table; REQUIRES: it is planned.
  [[nodiscard]] std::string table() const;

 private:
  Backend& device_;
  std::unique_ptr<PlannedBackend> planned_;
};

}  // namespace taut::worker
