#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// The tables' values on one device, and their copies from the host. A table has one buffer or, if
/// there is enough memory, two: while the compute reads the one in front, fresh values are copied
/// into the other, and the two are swapped between two uses. Each buffer is overwritten behind the
/// mark of its last use.
/// Errors    DeviceError
/// Thread    the compute thread; copy_ahead() any
class DeviceValues {
 public:
  /// backend  outlives this
  explicit DeviceValues(Backend& backend);

  /// Adds the next table; its id is the number of tables added before.
  void add(const TableSpec& spec);

  /// Where a table's fresh values are written: pinned host memory.
  [[nodiscard]] std::span<float> fresh(TableId table) const;

  /// Allocates a second buffer for every table whose values change, if the device has twice the
  /// memory that they need. Only the first call has an effect. A device that must know all calls in
  /// advance has none: a copy that starts when values arrive has no place among them.
  void try_second_buffers();
  [[nodiscard]] bool has_second_buffers() const { return has_second_; }

  /// The fresh values are complete: starts their copy into the second buffer, if there is one.
  void copy_ahead(TableId table);

  /// Puts the fresh values in front; work queued on `compute` from now on waits for their copy.
  void bring(TableId table, Stream& compute);
  /// Work queued on `compute` from now on waits for the values in front.
  void await_front(TableId table, Stream& compute);
  /// The values in front, until the next bring() of the table.
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const;
  /// Marks that all reads of the values in front are queued on `compute`.
  void mark_used(TableId table, Stream& compute);

  /// Waits for the copies that were started.
  void finish();

 private:
  struct Place {
    DeviceBuffer memory;             // empty: no second buffer
    std::unique_ptr<Event> used;     // the compute has passed the last use of these values
    std::unique_ptr<Event> arrived;  // the copy to this place is complete
  };
  struct Table {
    std::string name;
    std::size_t count = 0;
    bool changes = true;
    HostBuffer fresh;
    Place front;
    Place back;
    bool is_ahead = false;  // the fresh values are in the second buffer, or being copied there
  };

  [[nodiscard]] Place make_place(const std::string& name, std::size_t count) const;
  void start_copy(const Table& table, const Place& to);

  Backend& backend_;
  std::vector<Table> tables_;
  bool is_placed_ = false;
  bool has_second_ = false;
  std::mutex mutex_;  // guards the stream, and in each table all but its fresh values
  std::unique_ptr<Stream> stream_;
};

}  // namespace taut
