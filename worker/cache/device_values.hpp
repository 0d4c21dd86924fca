#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "worker/backend/backend.hpp"

namespace taut {

/// The tables' values on one device, and their way there from the host. A table has one buffer or,
/// where there is room, two: while the compute reads the one in front, fresh values are copied into
/// the other, and the two change places between two uses. Each buffer is overwritten behind the mark
/// of its own last use.
/// Errors    DeviceError
/// Thread    the compute thread; copy_ahead() any
class DeviceValues {
 public:
  /// backend  outlives this
  explicit DeviceValues(Backend& backend);

  /// Adds the next table: its number is how many there were before.
  void add(const TableSpec& spec);

  /// Where a table's fresh values are written: one place, that the device copies from by itself.
  [[nodiscard]] std::span<float> fresh(TableId table) const;

  /// Gives every table whose values change a second buffer, where the device has room for all of them
  /// and as much again stays free. Asks once. A device that has to know all calls beforehand has none:
  /// a copy that comes when the values do has no place among them.
  void try_second_buffers();
  [[nodiscard]] bool has_second_buffers() const { return has_second_; }

  /// The fresh values are all there: starts their copy into the second buffer, if there is one.
  void copy_ahead(TableId table);

  /// Puts the fresh values in front; what is queued on `compute` from now on waits for their copy.
  void bring(TableId table, Stream& compute);
  /// What is queued on `compute` from now on waits for the values in front.
  void await_front(TableId table, Stream& compute);
  /// The values in front, until the next bring() of the table.
  [[nodiscard]] DeviceSpan<const float> front(TableId table) const;
  /// All that reads the values in front is queued on `compute`.
  void mark_used(TableId table, Stream& compute);

  /// Waits for the copies that were started.
  void finish();

 private:
  struct Place {
    DeviceBuffer memory;             // none: there is no second buffer
    std::unique_ptr<Event> used;     // the compute has passed the last use of what is here
    std::unique_ptr<Event> arrived;  // what was copied here has come
  };
  struct Table {
    std::string name;
    std::size_t count = 0;
    bool changes = true;
    HostBuffer fresh;
    Place front;
    Place back;
    bool is_ahead = false;  // the fresh values are in the second buffer, or on their way
  };

  [[nodiscard]] Place make_place(const std::string& name, std::size_t count) const;
  void start_copy(const Table& table, const Place& to);

  Backend& backend_;
  std::vector<Table> tables_;
  bool asked_ = false;
  bool has_second_ = false;
  std::mutex mutex_;  // guards the stream, and in each table all but its fresh values
  std::unique_ptr<Stream> stream_;
};

}  // namespace taut
