#include "lab/losses/faulty_store.hpp"

#include <utility>

namespace taut::sim {
namespace {

class FaultyStore final : public CoordinatorStore {
 public:
  FaultyStore(std::shared_ptr<CoordinatorRecords> records, std::shared_ptr<DiskFaults> faults)
      : kept_(make_memory_store(std::move(records))), faults_(std::move(faults)) {}

  Result<CoordinatorRecords> load() override { return kept_->load(); }
  Result<void> save(const CoordinatorChanges& changes) override {
    if (faults_->is_full) return make_error(ErrorCode::kIo, "the disk is full");
    const DiskFaults::Tear tear = std::exchange(faults_->next, DiskFaults::Tear::kNone);
    if (tear == DiskFaults::Tear::kNone) return kept_->save(changes);
    if (tear == DiskFaults::Tear::kKept) {
      TAUT_TRY(kept_->save(changes));
    }
    return make_error(ErrorCode::kClosed, "the disk failed to sync");
  }

 private:
  const std::unique_ptr<CoordinatorStore> kept_;
  const std::shared_ptr<DiskFaults> faults_;
};

}  // namespace

std::unique_ptr<CoordinatorStore> make_faulty_store(std::shared_ptr<CoordinatorRecords> records,
                                                    std::shared_ptr<DiskFaults> faults) {
  return std::make_unique<FaultyStore>(std::move(records), std::move(faults));
}

}  // namespace taut::sim
