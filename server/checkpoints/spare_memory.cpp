#include "server/checkpoints/spare_memory.hpp"

#include "common/system/memory.hpp"

namespace taut::server {

void SpareStock::fill(const std::atomic<bool>& stop) const {
  // The limit covers tables only; other processes of the machine need memory, too.
  if (available_memory().value() / 2 < bytes_) return;
  for (const Demand& demand : demands_) {
    BufferPool pool = demand.pool;
    for (const auto& [size, count] : demand.buffers) {
      pool.preallocate(size, count, [&] { return stop || *over_; });
    }
  }
}

std::optional<SpareStock> SpareMemory::prepare(std::span<const SliceState* const> slices,
                                               const std::shared_ptr<TableMemory>& limit) {
  stop_filling();
  SpareStock stock;
  stock.demands_ = {{values_, {}}, {states_, {}}};
  std::uint64_t bytes[] = {0, 0};
  for (const SliceState* slice : slices) {
    // Only those of a bucket's rows that are updated are copied.
    if (!slice->is_written() || slice->rows() != nullptr) continue;
    const std::size_t size = slice->place().count * sizeof(float);
    const std::size_t rounded = BufferPool::rounded_size(size);
    const std::size_t counts[] = {1, slice->states()};
    for (std::size_t i = 0; i < 2; ++i) {
      stock.demands_[i].buffers[rounded] += counts[i];
      bytes[i] += counts[i] * rounded;
    }
  }
  stock.bytes_ = bytes[0] + bytes[1];
  if (stock.bytes_ == 0) return std::nullopt;
  over_ = std::make_shared<std::atomic<bool>>(false);
  stock.over_ = over_;
  if (limit && !share_) share_ = limit->take_spare(Bytes(stock.bytes_));
  if (limit && (!share_ || limit->is_short())) return std::nullopt;
  if (!reserved_) {
    reserved_.emplace(
        Reserved{values_.keep_more(Bytes(bytes[0])), states_.keep_more(Bytes(bytes[1]))});
  }
  return stock;
}

std::optional<SpareExcess> SpareMemory::give_back() {
  stop_filling();
  TableMemory::Share share;
  if (share_) share = std::move(*share_);
  share_.reset();
  if (!reserved_) return std::nullopt;
  SpareExcess excess{std::move(share), reserved_->values.end(), reserved_->states.end()};
  reserved_.reset();
  return excess;
}

}  // namespace taut::server
