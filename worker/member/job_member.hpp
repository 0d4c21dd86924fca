#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/net/security.hpp"
#include "common/net/zmq_endpoint.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "worker/client/client.hpp"
#include "worker/member/member_control.hpp"

namespace taut {

struct MemberOptions {
  std::string coordinator;  // addresses of all that could coordinate, separated by commas
  JobId job;
  std::string name;  // of this process, among all of the cluster
  Security security = Security::insecure();
  Duration start_wait{60'000'000};  // for the first answer of the coordinator
  bool shared_memory = true;        // with servers of the same machine
};

/// A program's part in a job with external members: its tables, its clock, and its connection to
/// the coordinator, which it keeps by itself.
///
/// Tables are added, then opened. Where the job's text names them they are matched by name, and the
/// servers make their initial values. Otherwise a member of the job's opening brings those, of
/// which the first are every member's. One that joins later gets the values of its clock. From then
/// on, at each clock: push() once for every table, pull() what the next clock reads, end_clock().
///
/// Calls that wait for others do so for `at_most`, and say whether that was enough: they may be
/// repeated.
///
/// Errors    closed: the job is over; stale: this member was declared lost, and can only join
///           again; timeout: a server says nothing
/// Thread    one call at a time; a second one at the same time is refused as invalid
class JobMember {
 public:
  /// Begins to join; await_place() follows.
  [[nodiscard]] static Result<std::unique_ptr<JobMember>> join(const MemberOptions& options);
  /// Without leave() before, the job takes it for lost, and another member may take its place.
  ~JobMember();
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;

  struct Place {
    std::uint32_t worker = 0;  // its number, which is never given twice
    std::uint32_t slot = 0;    // its share of the job's data, one of `slots`
    std::uint32_t slots = 0;
    Clock start;  // the first clock that it computes
  };
  /// Waits for a place in the job; nothing: there is none yet.
  /// Errors    and: unavailable: refused by the coordinator; timeout: no coordinator there
  [[nodiscard]] Result<std::optional<Place>> await_place(Duration at_most);

  /// The tables that the job's text names; none: members name them. REQUIRES: a place.
  [[nodiscard]] const std::vector<TableSpec>& tables_in_text() const { return in_text_; }

  /// Adds a table; before open(), by all members in the same order, or as the job's text names it.
  /// Errors    mismatch: the job's text has none of that name, or of another shape or kind
  /// values  [count] float32, the initial ones; from open() on the shared ones, written until
  ///         close() by open() and, between push() and the end of pull(), at any time
  /// owner   of the values, shared until then; nullptr: the caller keeps them
  [[nodiscard]] Result<TableId> add_table(const std::string& name, std::vector<std::int64_t> shape,
                                          TableKind kind, std::span<float> values,
                                          std::shared_ptr<void> owner = nullptr);

  struct TableView {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<float> values;
    std::shared_ptr<void> owner;
  };
  /// A table as it was added.
  [[nodiscard]] Result<TableView> table(TableId table);
  /// Opens the tables at every server, and fills their values. Returns whether all are.
  [[nodiscard]] Result<bool> open(Duration at_most);

  /// Memory for the table's next update, which push() then does not copy.
  [[nodiscard]] Result<std::span<float>> gradient(TableId table);
  /// Pushes the table's update of its clock, and asks for the values of the next one.
  /// gradient  [count] float32; copied, unless it is gradient()'s memory
  [[nodiscard]] Result<void> push(TableId table, std::span<const float> gradient);
  /// The same for memory that is lent. It is not copied unless it reaches the servers through
  /// memory that this process shares with them, and not to be written while it is shared.
  [[nodiscard]] Result<void> push_lent(TableId table, const Frame& gradient);
  /// Waits for the values of the table's clock, which push() has begun; nothing: not yet here.
  [[nodiscard]] Result<std::optional<ReadResult>> pull(TableId table, Duration at_most);
  /// Reads the newest values; waits for no member.
  [[nodiscard]] Result<ReadResult> snapshot(TableId table, std::span<float> into);

  /// Ends a clock, of which every table was pushed and pulled.
  /// Errors    and: invalid: names the table that was not
  [[nodiscard]] Result<MemberOrders> end_clock(const ClockReport& report);
  /// The clock that it computes.
  [[nodiscard]] Clock clock() const { return clock_; }

  /// Leaves at the end of a clock: no update is lost.
  /// finished  the job is over for it, and no other takes its place
  [[nodiscard]] Result<void> leave(bool finished);
  /// Leaves at once, and says why.
  void fail(const std::string& reason);

  [[nodiscard]] const StalenessHistogram& staleness() const;
  [[nodiscard]] Client::Traffic traffic() const;

 private:
  struct Table {
    TableSpec spec;  // its id is the one at the servers
    std::span<float> values;
    std::shared_ptr<void> owner;
    Clock clock;  // that it is pushed at next
    bool is_pulled = false;
    ReadResult read;  // the newest
    Buffer gradient;  // handed out, not pushed
  };

  JobMember(const MemberOptions& options, std::unique_ptr<MemberControl> control);
  [[nodiscard]] Result<void> connect(const pb::WorkerJob& job);
  [[nodiscard]] Result<void> request_tables();
  [[nodiscard]] Result<std::unique_lock<std::mutex>> enter();
  [[nodiscard]] Result<Table*> find(TableId table);
  [[nodiscard]] Error unknown(TableId table) const;
  [[nodiscard]] bool is_written(std::span<const std::byte> memory) const;
  [[nodiscard]] Result<void> check_push(const Table& table, std::size_t count) const;
  void copy_and_send(Table& table, std::span<const float> gradient);
  void sent(Table& table);
  [[nodiscard]] Result<std::optional<ReadResult>> await(Table& table, Duration at_most);
  [[nodiscard]] Result<void> check_pushed() const;
  /// The reason behind a client's error, where the coordinator has said it.
  [[nodiscard]] Error explain(const Error& error) const;

  const MemberOptions options_;
  std::unique_ptr<ZmqContext> context_;
  std::unique_ptr<MemberControl> control_;
  std::optional<Place> place_;
  Duration silence_limit_{0};
  std::unique_ptr<Client> client_;
  std::vector<TableSpec> in_text_;
  std::vector<Table> tables_;  // as they were added; a table's number is its place here
  bool is_requested_ = false;  // the tables, at the servers
  bool is_open_ = false;
  bool has_left_ = false;
  Clock clock_;
  std::optional<TimePoint> clock_begun_;
  Duration waited_{0};  // in pull(), at this clock
  MemberControl::Figures figures_;
  std::mutex calls_;
};

}  // namespace taut
