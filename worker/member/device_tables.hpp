#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/engine/program_device.hpp"
#include "worker/member/job_member.hpp"

namespace taut {

/// The tables of a member whose values are in a device's memory, where its program computes.
///
/// Copies are queued on the program's streams, so that only open() and pull() wait for a device: an
/// update is copied to pinned memory at its place in the stream, and sent to the servers when the
/// copy is done; values come back the same way. A program can thus call push() for all tables once
/// it has queued its backward, before the device has computed the first gradient. No thread is
/// used: push() and pull() send what has been copied by then, and pull() sends while it waits.
///
/// Errors    as JobMember's; io: of the device, perhaps of the program's own work
/// Thread    the member's, except for the destructor and the member's cancel(), which end a call
///           that waits
class DeviceTables {
 public:
  explicit DeviceTables(JobMember& member) : member_(member) {}
  /// Cancels the member, and waits until another thread's call has returned.
  ~DeviceTables();
  DeviceTables(const DeviceTables&) = delete;
  DeviceTables& operator=(const DeviceTables&) = delete;

  /// Memory on a device, and the stream whose work it belongs to.
  struct Memory {
    void* data = nullptr;
    std::uint64_t count = 0;
    int device = 0;
    ProgramStream stream = nullptr;
  };

  /// Adds a table as JobMember::add_table() does.
  /// values  [count] float32, the initial ones; read on its stream by the first open(), and written
  ///         there by open() and pull()
  /// owner   of the values, kept until the member's end
  [[nodiscard]] Result<TableId> add(const std::string& name, std::vector<std::int64_t> shape,
                                    TableKind kind, const Memory& values,
                                    std::shared_ptr<void> owner);
  [[nodiscard]] bool has(TableId table) const { return tables_.contains(table); }
  /// A table's memory. REQUIRES: has(table)
  [[nodiscard]] const Memory& memory(TableId table) const { return tables_.at(table).values; }
  /// From now on a table's values are written on another stream. REQUIRES: has(table)
  void set_stream(TableId table, ProgramStream stream) { tables_.at(table).values.stream = stream; }

  /// As JobMember::open(), with the values that the memory has at this place in its stream; queues
  /// the copies of the job's values to that memory.
  [[nodiscard]] Result<bool> open(Duration at_most);

  /// An update in the device's memory.
  struct Update {
    Memory memory;  // its count is that of the values
    std::size_t element_bytes = sizeof(float);
    /// Converts them to float32. from  [count] elements
    std::function<void(const void* from, std::span<float> into)> convert;
    std::shared_ptr<void> owner;  // kept until it has been copied
  };
  /// Queues the copy of a table's update of this clock, after which the program may queue work that
  /// overwrites it. The push follows when the copy is done. REQUIRES: has(table)
  [[nodiscard]] Result<void> push(TableId table, Update update);
  /// As JobMember::pull(), after everything that was pushed has been sent; for these tables and any
  /// other. Queues the copy of the values: work that is queued on their stream later sees them.
  [[nodiscard]] Result<std::optional<ReadResult>> pull(TableId table, Duration at_most);
  /// Checks that every table that was pushed at this clock was pulled. Errors    invalid: names it
  [[nodiscard]] Result<void> check_pulled() const;

 private:
  struct Table {
    std::string name;
    Memory values;
    std::shared_ptr<HostBuffer> host;  // of its values, which the member reads and writes
    HostBuffer update;                 // on its way to the servers
    std::unique_ptr<ProgramCopy> values_copy;
    std::unique_ptr<ProgramCopy> update_copy;
    bool is_read = false;    // the copy of the initial values is queued
    bool is_pushed = false;  // and not pulled yet
    bool is_current = true;  // the device's values are, or will be, the host's
  };
  struct Pending {
    TableId table;
    Update update;
  };
  /// Errors    invalid: another thread is in a call
  [[nodiscard]] Result<std::unique_lock<std::mutex>> enter();
  [[nodiscard]] Result<ProgramDevice*> device(int index);
  [[nodiscard]] Result<bool> is_copied(const Pending& pending);
  [[nodiscard]] Result<void> send(Pending& pending);
  /// Sends what has been copied. Returns whether nothing is left to be sent.
  [[nodiscard]] Result<bool> send_copied();
  /// Waits until `condition` returns true, for at most `at_most`. Returns whether it did.
  /// Errors    those of JobMember::end(), and of the condition
  [[nodiscard]] Result<bool> wait_for(Duration at_most,
                                      const std::function<Result<bool>()>& condition);
  [[nodiscard]] Result<void> copy_values(Table& table);

  JobMember& member_;
  std::mutex calls_;                                       // held by a call
  std::map<int, std::unique_ptr<ProgramDevice>> devices_;  // outlive the tables' copies and memory
  std::map<TableId, Table> tables_;
  std::deque<Pending> pending_;  // pushed, and not sent yet
  bool is_open_ = false;
};

}  // namespace taut
