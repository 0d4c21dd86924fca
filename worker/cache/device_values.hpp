#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/net/memory_pinning.hpp"
#include "common/net/message.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The tables' values on one device, and their copies from the host. A table has one buffer or, if
/// there is enough memory, two: while the compute reads the one in front, fresh values are copied
/// into the other, and the two are swapped between two uses. A buffer is overwritten only after the
/// mark of its last use.
/// Errors    DeviceError
/// Thread    the compute thread; take() and copy_ahead() any
class DeviceValues {
 public:
  /// backend  outlives this
  /// pinned   pins memory that a device copies from without the host; nullptr: none
  explicit DeviceValues(Backend& backend, std::shared_ptr<MemoryPinning> pinned = nullptr);

  /// Adds the next table; its id is the number of tables added before. One that is kept by rows has
  /// no values here.
  void add(const TableSpec& spec);

  /// Where a table's fresh values are written: pinned host memory.
  [[nodiscard]] std::span<float> fresh(TableId table) const;

  /// Allocates a second buffer for every table whose values change, if the device has twice the
  /// memory that they need. Only the first call has an effect. A device that must know all calls in
  /// advance gets none: a copy that starts when values arrive cannot be planned.
  void try_second_buffers();
  [[nodiscard]] bool has_second_buffers() const { return has_second_; }

  /// Takes values that have arrived for a part of fresh(): copies them at once, to the second
  /// buffer if it exists and they are pinned, and into `into` otherwise.
  void take(std::span<float> into, const Frame& values);

  /// The fresh values are complete: starts the copy of those on the host into the second buffer, if
  /// it exists.
  void copy_ahead(TableId table);

  /// Puts the fresh values in front; work queued on `compute` from now on waits for their copy.
  void bring(TableId table, Stream& compute);
  /// Work queued on `compute` from now on waits for the values in front.
  void await_front(TableId table, Stream& compute);
  /// The values in front, until the next bring() of the table.
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const;
  /// Marks that all reads of the values in front are queued on `compute`.
  void mark_used(TableId table, Stream& compute);

  /// Waits for the copies under way.
  void finish();

 private:
  struct Place {
    DeviceBuffer memory;             // empty: no second buffer
    std::unique_ptr<Event> used;     // the compute has passed the last use of these values
    std::unique_ptr<Event> arrived;  // the copy to this place is complete
  };
  struct Part {
    std::size_t offset = 0;
    std::size_t count = 0;
  };
  struct Table {
    std::string name;
    std::size_t count = 0;
    bool changes = true;
    HostBuffer fresh;
    Place front;
    Place back;
    bool is_ahead = false;      // the fresh values are in the second buffer, or being copied there
    bool is_taken = false;      // some of them are, before all have arrived
    std::vector<Part> on_host;  // with is_taken: the others
  };
  /// Frames whose memory the device still reads.
  struct Reading {
    std::unique_ptr<Event> passed;
    std::vector<Frame> frames;
  };

  [[nodiscard]] Place make_place(const std::string& name, std::size_t count) const;
  [[nodiscard]] Table& table_with(const float* place);
  void start_copy(Table& table, const Place& to);
  void copy_part(const Table& table, const Place& to, std::size_t offset, const std::byte* from,
                 std::size_t count);
  [[nodiscard]] bool copy_lent(Table& table, std::size_t offset, const Frame& values);
  void mark_read();
  void let_go();

  Backend& backend_;
  const std::shared_ptr<MemoryPinning> pinned_;
  std::vector<Table> tables_;
  std::map<const float*, std::size_t> places_;  // where each table's fresh values begin
  bool is_placed_ = false;
  bool has_second_ = false;
  std::mutex mutex_;  // guards the stream, and in each table all but its fresh values
  std::unique_ptr<Stream> stream_;
  std::vector<Frame> read_;  // since the last mark
  std::size_t read_bytes_ = 0;
  std::deque<Reading> reading_;
  std::vector<std::unique_ptr<Event>> spare_events_;
};

}  // namespace taut
