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

/// Turns a member's updates into what is sent of them, once each: what is kept for backups and what
/// is sent again are the same bytes. Where the job's encoding leaves values out, it keeps them for
/// the table's next update: a residual of 4 bytes a value. Where members apply the momentum, it
/// keeps a velocity of as many.
/// Thread    open() and encode(): one at a time; the others: any
class UpdateEncoder {
 public:
  explicit UpdateEncoder(UpdateEncoding encoding) : encoding_(std::move(encoding)) {}

  /// How the job's updates and values are encoded. Thread: any.
  [[nodiscard]] const Compression& compression() const { return encoding_.compression; }

  /// Names the job's tables, and how they are cut; before anything is encoded. Residuals are zeros.
  void open(const std::vector<TableSpec>& tables, const SliceLayout& layout);

  /// One update for each slice of a table.
  /// gradient  [count] float32; shared by the result where it is sent as it is
  /// norm      of the member's whole gradient, where it is clipped
  /// pool      where the result's memory is from otherwise
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Frame& gradient,
                                           float norm, BufferPool& pool);
  [[nodiscard]] std::vector<Update> encode(TableId table, Clock clock, const Buffer& gradient,
                                           float norm, BufferPool& pool) {
    return encode(table, clock, Frame(gradient), norm, pool);
  }

  /// How a device can encode a table's update. Float32: it cannot, or has nothing to encode.
  [[nodiscard]] TableEncoding encoding_of(TableId table, Clock clock) const;
  /// The updates of an encoding that was made elsewhere.
  /// memory  [encoding.bytes]; shared by the result
  [[nodiscard]] std::vector<Update> adopt(TableId table, Clock clock, const Frame& memory,
                                          const TableEncoding& encoding, float norm);
  /// What is kept of a table's updates; a device keeps it from now on, and `source` copies it.
  [[nodiscard]] std::vector<float> hand_over(TableId table, ResidualSource source);
  /// No longer reads from devices that keep something: what they kept is lost.
  void forget_sources();

  /// From now on updates are sent as float32, and with all that earlier ones have left out.
  void send_rest() { sends_rest_ = true; }
  [[nodiscard]] bool sends_rest() const { return sends_rest_; }
  /// Whether updates of any table leave something out.
  [[nodiscard]] bool leaves_out() const;
  /// Whether anything is kept between updates of any table: that, or velocities.
  [[nodiscard]] bool keeps_residuals() const;
  /// What is kept of the updates before `clock`. Waits until they are encoded: the thread that
  /// encodes may be behind the one that computes.
  /// start   the member's first clock
  /// Errors  timeout; unavailable: a device that keeps some of it failed
  /// Thread  the one that computes, if a device encodes: nothing is queued there meanwhile
  [[nodiscard]] Result<Residuals> residuals(Clock start, Clock clock, Duration wait);
  /// Continues with what another member has kept, before anything is encoded. Returns false and
  /// changes nothing if they are of other tables.
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
  // Guards all below, of tables of which something is kept; sizes stay as they are from open() on.
  std::mutex mutex_;
  std::condition_variable encoded_;  // a table's `next_` has changed
  Residuals residuals_;
  std::vector<Clock> next_;              // by table: the clock after the last one that is encoded
  std::vector<ResidualSource> sources_;  // by table; empty: `residuals_` has what is kept
};

}  // namespace taut
