// The batches of a clock: from their loaders to the nets, and the rows that they name.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/timeline.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {
namespace {

constexpr Duration kDataWait{60'000'000};

}  // namespace

/// The number of a batch's random draw, different for each batch of a clock.
Clock Trainer::draw_of(const Step& step) const {
  return Clock(step.clock.value() * options_.batches + step.batch);
}

/// The batches of a draw; those of skipped clocks are returned.
Result<std::vector<data::Batch>> Trainer::next_batches(const Step& step) {
  if (!ahead_.empty()) {
    TAUT_CHECK(ahead_[0].clock == draw_of(step), "no clock is skipped whose rows were named");
    return std::exchange(ahead_, {});
  }
  const auto load = [&]() -> Result<std::vector<data::Batch>> {
    const timeline::Span span(timeline::Row::kWait, "data", step.clock.value());
    std::vector<data::Batch> batches;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      data::DataLoader& loader = *replica_of(step, i).loader;
      auto loaded = loader.next(kDataWait);
      while (loaded && loaded.value().clock < draw_of(step)) {
        loader.recycle(std::move(loaded.value()));
        loaded = loader.next(kDataWait);
      }
      TAUT_TRY(data::Batch batch, std::move(loaded));
      batches.push_back(std::move(batch));
    }
    return batches;
  };
  if (options_.measures_batches) return load();
  board_.begin_wait(now());
  auto batches = load();
  waited_ += board_.end_wait(now());
  return batches;
}

/// Starts to read the rows that batches name, one for each device.
Result<void> Trainer::name_rows(const Step& step, std::span<const data::Batch> batches) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (const model::RowParameter& one : replica_of(step, i).rows) {
      const TableId table(static_cast<std::uint32_t>(one.parameter));
      TAUT_TRY(cache_.name_rows(step.first + i, table, step.clock, batches[i].rows[one.fed]));
    }
  }
  return ok();
}

/// Names the rows of the next clock, if its batch is ready: servers then reply as soon as they are
/// allowed to.
Result<void> Trainer::name_ahead(Clock clock) {
  if (clock >= options_.end || replicas_.size() > 1 || replicas_[0].rows.empty()) return ok();
  const Step step{.clock = clock};
  auto loaded = replicas_[0].loader->next(Duration(0));
  // A loader that has ended reports it again when the clock begins.
  if (!loaded) return ok();
  std::vector<data::Batch> batches;
  batches.push_back(std::move(loaded.value()));
  TAUT_TRY(name_rows(step, batches));
  ahead_ = std::move(batches);
  return ok();
}

/// Queues the copies of batches, one for each device, to the nets.
void Trainer::take_batches(const Step& step, std::vector<data::Batch> batches) {
  batches_ = std::move(batches);
  if (options_.arithmetic != Arithmetic::kLayerByLayer) return;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    Replica& replica = replica_of(step, i);
    if (device.feed == nullptr) {
      replica.net->set_batch(*device.stream, batches_[i].spans());
      continue;
    }
    const Arriving arriving =
        device.feed->bring(*device.stream, std::move(batches_[i]), *replica.loader);
    replica.net->set_batch(*device.stream, arriving);
    device.feed->mark_taken(*device.stream);
  }
}

}  // namespace taut::worker
