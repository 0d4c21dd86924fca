#pragma once

#include <memory>
#include <string>

#include "common/types.hpp"
#include "worker/backend/backend.hpp"
#include "worker/cache/planned_backend.hpp"

namespace taut::worker {

/// A job's backend: the device, or where there is a budget the device within it.
class BudgetedBackend {
 public:
  /// budget  of device memory, for all that the job allocates; 0: what the device has
  BudgetedBackend(Backend& device, Bytes budget);

  [[nodiscard]] Backend& backend() const { return planned_ ? *planned_ : device_; }

  /// What the training needs, what it has and what it moves, in one line; empty: no budget, or no
  /// plan yet.
  [[nodiscard]] std::string summary() const;
  /// The whole plan of the training, as a table; REQUIRES: it is planned.
  [[nodiscard]] std::string table() const;

 private:
  Backend& device_;
  std::unique_ptr<PlannedBackend> planned_;
};

}  // namespace taut::worker
