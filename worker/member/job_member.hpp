#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/net/security.hpp"
#include "common/net/zmq/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "common/ssp/push_schedule.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/job.pb.h"
#include "worker/client/client.hpp"
#include "worker/member/member_control.hpp"

namespace taut {

struct MemberOptions {
  std::string coordinator;  // addresses of all possible coordinators, separated by commas
  JobId job;
  std::string name;  // of this process, in the cluster
  Security security = Security::insecure();
  Duration start_wait{60'000'000};  // for the first answer of the coordinator
  bool shared_memory = true;        // with servers of the same machine
};

/// A program's part in a job with external members: its tables, its clock, and its connection to
/// the coordinator, which it maintains on its own.
///
/// Tables are added, then opened. If the job's text names them they are matched by name, and the
/// servers make their initial values. Otherwise the members that open the job bring initial values,
/// and the first to arrive become every member's. One that joins later gets the values of its
/// clock. From then on, at each clock: push() once for every table that is_due(), pull() what the
/// next clock reads, end_clock(). Every table is always due, unless the tables meet in fragments.
///
/// Calls that wait for others do so for at most `at_most`, and return whether that was enough: they
/// may be repeated.
///
/// Errors    closed: the job is over; stale: this member was declared lost, and can only join
///           again; timeout: a server does not answer
/// Thread    one call at a time; a second one at the same time is refused as invalid, except for
///           fail() and cancel(), which end one that waits
class JobMember {
 public:
  /// Begins to join; await_place() follows.
  [[nodiscard]] static Result<std::unique_ptr<JobMember>> join(const MemberOptions& options);
  /// Ends a call of another thread that waits, and waits until it has returned. Without leave()
  /// before, this member counts as lost, and another one may take its place.
  ~JobMember();
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;

  struct Place {
    std::uint32_t worker = 0;  // its number, which is never given twice
    std::uint32_t slot = 0;    // its share of the job's data, one of `slots`
    std::uint32_t slots = 0;
    Clock start;  // the first clock that it computes
  };
  /// Waits for a place in the job; nullopt if there is none yet.
  /// Errors    also: unavailable: refused by the coordinator; timeout: no coordinator answers
  [[nodiscard]] Result<std::optional<Place>> await_place(Duration at_most);

  /// The job's text. Errors: invalid: no place yet
  [[nodiscard]] Result<pb::Job> definition();
  /// A table that the job's text names, counted from 0; owned by this member.
  /// Errors    not_found: it names fewer; invalid: no place yet
  [[nodiscard]] Result<const TableSpec*> table_in_text(std::size_t index);

  /// Adds a table; before open(), by all members in the same order, or as the job's text names it.
  /// Errors    mismatch: the job's text has none of that name, or of another shape or kind
  /// values  [count] float32, the initial ones; from open() on the shared ones, written until this
  ///         member's end by open() and, between push() and the end of pull(), at any time
  /// owner   of the values, shared until then; nullptr: the caller keeps them
  [[nodiscard]] Result<TableId> add_table(const std::string& name, std::vector<std::int64_t> shape,
                                          TableKind kind, std::span<float> values,
                                          std::shared_ptr<void> owner = nullptr);

  /// Multiplies the job's learning rate and weight decay for a table; before open(), by all members
  /// alike.
  /// Errors    invalid: not a finite number of at least 0, or a table that is averaged; mismatch:
  ///           the job's text has other multiples
  [[nodiscard]] Result<void> set_multiples(TableId table, float rate, float decay);

  struct TableView {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<float> values;
    std::shared_ptr<void> owner;
  };
  /// A table as it was added.
  [[nodiscard]] Result<TableView> table(TableId table);
  /// Opens the tables at every server, and fills their values. Returns whether that is done.
  [[nodiscard]] Result<bool> open(Duration at_most);

  /// Whether a table is pushed at this clock.
  [[nodiscard]] Result<bool> is_due(TableId table);
  /// Memory for the table's next update, which push() then does not copy.
  [[nodiscard]] Result<std::span<float>> gradient(TableId table);
  /// Checks that an update of `count` values could be pushed now. Errors    as push()
  [[nodiscard]] Result<void> check_push(TableId table, std::uint64_t count);
  /// Pushes the table's update of its clock, and requests the values of the next one.
  /// gradient  [count] float32; copied, unless it is gradient()'s memory
  [[nodiscard]] Result<void> push(TableId table, std::span<const float> gradient);
  /// Overload for an update that `write` writes into the member's own memory.
  /// count  of its values
  using Write = std::function<void(std::span<float>)>;
  [[nodiscard]] Result<void> push(TableId table, std::uint64_t count, const Write& write);
  /// As push(), for borrowed memory, which must not be written while it is shared: until servers
  /// have acknowledged it. It is copied if updates reach servers through memory that this process
  /// shares with them, if it overlaps a table's values, which reads write, and in a replicated job,
  /// which keeps updates for longer.
  [[nodiscard]] Result<void> push_lent(TableId table, const Frame& gradient);
  /// Waits for the values of the table's clock, which push() has begun; nullopt if they
  /// have not arrived yet.
  [[nodiscard]] Result<std::optional<ReadResult>> pull(TableId table, Duration at_most);
  /// Reads the newest values; waits for no member. nullopt if they have not arrived yet: a call for
  /// the same memory continues.
  [[nodiscard]] Result<std::optional<ReadResult>> snapshot(TableId table, std::span<float> into,
                                                           Duration at_most);

  /// Ends a clock, of which every table that is due was pushed and pulled.
  /// Errors    also: invalid: names the table that was not
  [[nodiscard]] Result<MemberOrders> end_clock(const ClockReport& report);
  /// The clock that it computes.
  [[nodiscard]] Clock clock() const { return clock_; }

  /// Leaves at the end of a clock: no update is lost. Returns whether it has; until then it serves
  /// no other call.
  /// finished  it has finished its part of the job, and no other member takes its place
  [[nodiscard]] Result<bool> leave(bool finished, Duration at_most);
  /// Leaves at once, and reports why; a call that waits returns with closed.
  /// Errors    closed: it has left before; and those above
  /// Thread    any
  [[nodiscard]] Result<void> fail(const std::string& reason);
  /// Makes a call that waits, and every later one, return with closed.
  /// Thread    any
  void cancel();
  /// Why every call fails, such as cancel(); nullopt if they do not.
  /// Thread    any
  [[nodiscard]] std::optional<Error> end() const { return control_->end(); }

  /// Errors    also: invalid: no place yet
  [[nodiscard]] Result<StalenessHistogram> staleness();

 private:
  struct Table {
    TableSpec spec;  // its id is the one at the servers
    std::span<float> values;
    std::shared_ptr<void> owner;
    PushSchedule schedule;
    Clock clock;  // that it is pushed at next
    Clock reads;  // the clock of the newest read
    bool is_pulled = false;
    ReadResult read;  // the newest
    Buffer gradient;  // handed out, not pushed
  };

  JobMember(const MemberOptions& options, std::unique_ptr<MemberControl> control);
  [[nodiscard]] Result<void> connect(const pb::WorkerJob& job);
  [[nodiscard]] Result<void> request_tables();
  void schedule(const std::vector<TableSpec>& in_order);
  void read_or_seed();
  enum class Call : std::uint8_t { kAny, kLeave };
  [[nodiscard]] Result<std::unique_lock<std::mutex>> enter(Call call = Call::kAny);
  [[nodiscard]] Result<void> check_place() const;
  [[nodiscard]] Result<Table*> find(TableId table);
  [[nodiscard]] Error unknown(TableId table) const;
  [[nodiscard]] bool overlaps_values(std::span<const std::byte> memory) const;
  [[nodiscard]] Result<void> check_push(const Table& table, std::size_t count) const;
  void copy_and_send(Table& table, std::span<const float> gradient);
  void write_and_send(Table& table, const Write& write);
  void send(Table& table, const Buffer& update);
  void sent(Table& table);
  [[nodiscard]] Result<std::optional<ReadResult>> await(Table& table, Duration at_most);
  [[nodiscard]] Result<void> check_pushed() const;
  /// The reason behind a client's error, if the coordinator has given one.
  [[nodiscard]] Error explain(const Error& error) const;

  const MemberOptions options_;
  std::unique_ptr<ZmqContext> context_;
  std::unique_ptr<MemberControl> control_;
  std::optional<Place> place_;
  Duration silence_limit_{0};
  bool is_replicated_ = false;
  std::unique_ptr<Client> client_;
  pb::Job definition_;
  PushSchedule schedule_;
  std::vector<TableSpec> in_text_;
  std::vector<Table> tables_;  // as they were added; a table's number is its place here
  bool is_requested_ = false;  // the tables, at the servers
  bool is_seeded_ = false;     // they are open there, with initial values on the way
  bool is_open_ = false;
  enum class Leaving : std::uint8_t { kNot, kFlushes, kReported, kDone };
  Leaving leaving_ = Leaving::kNot;
  Clock clock_;
  std::optional<TimePoint> clock_begun_;
  Duration waited_{0};  // in pull(), at this clock
  MemberControl::Figures figures_;
  std::mutex calls_;
};

}  // namespace taut
