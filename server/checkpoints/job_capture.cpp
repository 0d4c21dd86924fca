#include "server/checkpoints/job_capture.hpp"

#include <new>
#include <utility>

namespace taut::server {

void JobCapture::follow(const JobView& view, ShardId shard, const std::vector<TableSpec>& tables,
                        JobSlices& slices, const std::shared_ptr<TableMemory>& limit,
                        bool is_idle) {
  limit_ = limit;
  const CaptureOrder& order = view.checkpoint;
  if (order.number != capture_.order.number) {
    *capture_.withdrawn = true;
    capture_ = {view.job, shard, order, false, {}, {}, {}};
    is_finished_ = order.number == 0;
  }
  for (const ShardPlace& place : view.places) capture_.terms[place.shard] = place.term;
  if (order.number == 0) return_spares();
  if (is_finished_ || (tables.empty() && !is_idle)) return;
  if (prepared_ != order.number) prepare_spares(view, slices, limit);
  for (auto& [index, slice] : slices) take_image(*slice);
  finish(tables, slices);
}

void JobCapture::note_push(SliceState& slice, const std::vector<TableSpec>& tables,
                           const JobSlices& slices) {
  if (is_finished_) return;
  take_image(slice);
  finish(tables, slices);
}

void JobCapture::close_tables() {
  prepared_ = 0;
  return_spares();
}

void JobCapture::return_spares() {
  if (auto excess = spares_.give_back()) work_.excesses.push_back(std::move(*excess));
}

void JobCapture::prepare_spares(const JobView& view, const JobSlices& slices,
                                const std::shared_ptr<TableMemory>& limit) {
  try {
    std::vector<const SliceState*> all;
    for (const auto& [index, slice] : slices) all.push_back(slice.get());
    if (auto stock = spares_.prepare(all, limit)) {
      work_.stocks.push_back(std::move(*stock));
    } else {
      return_spares();
    }
    prepared_ = view.checkpoint.number;
  } catch (const std::bad_alloc&) {
    // The checkpoint works without it; the next view of the job tries again.
  }
}

void JobCapture::take_image(SliceState& slice) {
  if (slice.capture() == SliceCapture::State::kMissed) {
    capture_.missed = true;
  } else if (slice.capture() == SliceCapture::State::kReady) {
    SliceImage& image = capture_.slices.emplace_back(slice.take_image());
    if (slice.rows() != nullptr) lease_copies(slice, image.rows);
    if (slice.is_written()) spares_.stop_filling();
  }
}

/// Rows that are updated while they are written are copied: reserves the memory for that while the
/// image exists; if there is none, updates wait for the image to end.
void JobCapture::lease_copies(SliceState& slice, RowImage& image) {
  if (!limit_ || image.chunks.empty()) return;
  if (auto spare = limit_->take_spare(Bytes(image.bytes()))) {
    image.lease = std::make_shared<const TableMemory::Share>(std::move(*spare));
    return;
  }
  image.lease = std::make_shared<const int>(0);
  slice.wait_for_end_of(image.lease);
}

void JobCapture::finish(const std::vector<TableSpec>& tables, const JobSlices& slices) {
  if (is_finished_) return;
  if (!capture_.missed && capture_.slices.size() < slices.size()) return;
  is_finished_ = true;
  if (capture_.missed) capture_.slices.clear();
  capture_.tables = tables;
  work_.captures.push_back(capture_);
  capture_.slices.clear();
}

}  // namespace taut::server
