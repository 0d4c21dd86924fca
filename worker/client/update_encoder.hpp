#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/pushed_update.hpp"
#include "worker/client/update_encoding.hpp"

namespace taut {

/// Encodes each of a member's updates, once: what is kept for backups and what is sent again are
/// the same bytes. Where the job's encoding leaves values out, it keeps them for the table's next
/// update: a residual of 4 bytes a value. Where members apply the momentum, it keeps a velocity of
/// the same size.
/// Thread    open() and encode(): one at a time; the others: any
class UpdateEncoder {
 public:
  explicit UpdateEncoder(UpdateEncoding encoding) : encoding_(std::move(encoding)) {}

  /// How the job's updates and values are encoded. Thread: any.
  [[nodiscard]] const Compression& compression() const { return encoding_.compression; }

  /// Sets the job's tables and their slices, before anything is encoded. Residuals start at zero.
  void open(const std::vector<TableSpec>& tables, const SliceLayout& layout);

  /// One update for each slice of a table.
  /// gradient  [count] float32; the result shares it if it is sent unchanged
  /// norm      of the member's whole gradient, if it is clipped
  /// pool      provides the result's memory otherwise
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Frame& gradient,
                                           float norm, BufferPool& pool);
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Buffer& gradient,
                                           float norm, BufferPool& pool) {
    return encode(table, clock, Frame(gradient), norm, pool);
  }

  /// How a device can encode a table's update. Float32 if it cannot, or has nothing to encode.
  [[nodiscard]] TableEncoding encoding_of(TableId table, Clock clock) const;
  /// One update for each slice, from bytes that were encoded elsewhere.
  /// memory  [encoding.bytes]; the result shares it
  [[nodiscard]] std::vector<Update> adopt(TableId table, Clock clock, const Frame& memory,
                                          const TableEncoding& encoding, float norm);
  /// Returns what is kept of a table's updates; a device keeps it from now on, and `source` copies
  /// it from there.
  [[nodiscard]] std::vector<float> hand_over(TableId table, ResidualSource source);
  /// Stops reading from devices that keep something: what they keep is lost.
  void forget_sources();

  /// From now on updates with residuals are sent as float32, including what earlier ones left out.
  void send_rest() { sends_rest_ = true; }
  [[nodiscard]] bool sends_rest() const { return sends_rest_; }
  /// Whether updates of any table leave something out.
  [[nodiscard]] bool leaves_out() const;
  /// Whether anything is kept between updates of any table: residuals or velocities.
  [[nodiscard]] bool keeps_residuals() const;
  /// What is kept of the updates before `clock`. Waits until they are encoded: the thread that
  /// encodes may be behind the one that computes.
  /// start   the member's first clock
  /// Errors  timeout; unavailable: a device that keeps some of it failed
  /// Thread  the compute thread, if a device encodes: nothing is queued there meanwhile
  [[nodiscard]] Result<Residuals> residuals(Clock start, Clock clock, Duration wait);
  /// Starts from the residuals of another member, before anything is encoded. Returns false and
  /// changes nothing if they belong to other tables.
  [[nodiscard]] bool restore(Residuals residuals);

 private:
  [[nodiscard]] bool has_velocity(const TableSpec& table) const;
  [[nodiscard]] Frame advance(TableId table, const Frame& gradient, float norm, BufferPool& pool);
  [[nodiscard]] std::vector<Update> encode_slices(const math::Encoding& encoding, TableId table,
                                                  Clock clock, const Frame& gradient, float norm,
                                                  BufferPool& pool);
  [[nodiscard]] std::vector<Update> encode_rest(const math::Encoding& encoding, TableId table,
                                                Clock clock, const Frame& gradient, float norm,
                                                BufferPool& pool);
  [[nodiscard]] std::vector<Update> cut(const Frame& whole, TableId table, Clock clock,
                                        float norm) const;

  const UpdateEncoding encoding_;
  SliceLayout layout_;
  std::vector<TableSpec> tables_;
  std::atomic<bool> sends_rest_ = false;
  // Guards all below, for tables of which something is kept; sizes do not change after open().
  std::mutex mutex_;
  std::condition_variable encoded_;  // a table's `next_` has changed
  Residuals residuals_;
  std::vector<Clock> next_;              // by table: the clock after the last one that is encoded
  std::vector<ResidualSource> sources_;  // by table; empty: it is kept in `residuals_`
};

}  // namespace taut
