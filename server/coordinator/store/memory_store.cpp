#include <utility>

#include "server/coordinator/store/store.hpp"

namespace taut {
namespace {

class MemoryStore final : public CoordinatorStore {
 public:
  explicit MemoryStore(std::shared_ptr<CoordinatorRecords> records)
      : records_(records ? std::move(records) : std::make_shared<CoordinatorRecords>()) {}

  Result<CoordinatorRecords> load() override { return *records_; }

  Result<void> save(const CoordinatorChanges& changes) override {
    if (changes.counters) records_->counters = *changes.counters;
    for (const auto& [id, job] : changes.jobs) records_->jobs[id] = job;
    for (const JobId id : changes.forgotten) records_->jobs.erase(id);
    return ok();
  }

 private:
  std::shared_ptr<CoordinatorRecords> records_;
};

}  // namespace

std::unique_ptr<CoordinatorStore> make_memory_store(std::shared_ptr<CoordinatorRecords> records) {
  return std::make_unique<MemoryStore>(std::move(records));
}

}  // namespace taut
