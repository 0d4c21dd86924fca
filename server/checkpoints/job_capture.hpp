#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/table.hpp"
#include "server/checkpoints/spare_memory.hpp"
#include "server/job_view.hpp"
#include "server/replication/slice_image.hpp"
#include "server/slice_state.hpp"
#include "server/tables/table_memory.hpp"

namespace taut::server {

/// A job's slices at one shard, by SliceLayout::index_of.
using JobSlices = std::map<std::size_t, std::unique_ptr<SliceState>>;

/// A shard's results for the threads that write checkpoints and allocate memory.
struct CheckpointWork {
  std::vector<ShardCapture> captures;
  std::vector<SpareStock> stocks;     // memory to prepare, well before a checkpoint's clock
  std::vector<SpareExcess> excesses;  // memory to return to the system
};

/// Gathers the images of one job's slices at a shard for the job's newest checkpoint order, and
/// keeps memory prepared for the updates that follow them.
/// Thread    shard thread
class JobCapture {
 public:
  /// values, states  the pools of the slices
  /// work            receives the results
  JobCapture(BufferPool& values, BufferPool& states, CheckpointWork& work)
      : spares_(values, states), work_(work) {}
  /// Withdraws the order: a job ends once its last checkpoint is complete or given up.
  ~JobCapture() { *capture_.withdrawn = true; }
  JobCapture(const JobCapture&) = delete;
  JobCapture& operator=(const JobCapture&) = delete;

  /// Adopts a new view, or tables that were opened: if the order differs from the previous one,
  /// withdraws that and restarts. A slice may be ready at once.
  /// tables  empty if they are not open yet
  /// limit   nullptr: no limit
  /// is_idle no shard is served here, so there is nothing to capture
  void follow(const JobView& view, ShardId shard, const std::vector<TableSpec>& tables,
              JobSlices& slices, const std::shared_ptr<TableMemory>& limit, bool is_idle = false);
  /// Takes a slice's image, after a push to it, if it is ready now.
  void note_push(SliceState& slice, const std::vector<TableSpec>& tables, const JobSlices& slices);

  /// Notes that the tables are closed again: spare memory must be prepared again.
  void close_tables();
  void return_spares();

 private:
  void prepare_spares(const JobView& view, const JobSlices& slices,
                      const std::shared_ptr<TableMemory>& limit);
  void take_image(SliceState& slice);
  void lease_copies(SliceState& slice, RowImage& image);
  void finish(const std::vector<TableSpec>& tables, const JobSlices& slices);

  SpareMemory spares_;
  CheckpointWork& work_;
  std::shared_ptr<TableMemory> limit_;  // nullptr: no limit
  ShardCapture capture_;                // for the newest order
  bool is_finished_ = true;             // capture_ was passed on
  std::uint64_t prepared_ = 0;          // the order for which spares_ is prepared
};

}  // namespace taut::server
