#pragma once

#include <memory>
#include <string>

#include "common/types.hpp"
#include "worker/engine/backend.hpp"
#include "worker/engine/plan/planned_backend.hpp"

namespace taut::worker {

/// A job's backend: the device itself, or one limited to a budget of its memory.
class BudgetedBackend {
 public:
  /// budget  of device memory, for all of the job's allocations; 0: no limit
  BudgetedBackend(Backend& device, Bytes budget);

  [[nodiscard]] Backend& backend() const { return planned_ ? *planned_ : device_; }

  /// The bytes that the training needs, has and moves, in one line; empty without a budget or
  /// before there is a plan.
  [[nodiscard]] std::string summary() const;
  /// The whole plan of the training, as a table. REQUIRES: it is planned.
  [[nodiscard]] std::string table() const;

 private:
  Backend& device_;
  std::unique_ptr<PlannedBackend> planned_;
};

}  // namespace taut::worker
