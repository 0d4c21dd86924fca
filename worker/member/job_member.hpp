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
/// Tables are added, then opened. A member of the job's opening brings their initial values, of
/// which the first are every member's; one that joins later gets the values of its clock. From then
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

  /// Adds a table; before open(), by all members in the same order.
  /// values  [count] float32, the initial ones; from open() on the shared ones, written until
  ///         close() by open() and, between push() and the end of pull(), at any time
  [[nodiscard]] Result<TableId> add_table(const std::string& name, std::vector<std::int64_t> shape,
                                          TableKind kind, std::span<float> values);
  /// Opens the tables at every server, and fills their values. Returns whether all are.
  [[nodiscard]] Result<bool> open(Duration at_most);

  /// Memory for the table's next update, which push() then does not copy.
  [[nodiscard]] Result<std::span<float>> gradient(TableId table);
  /// Pushes the table's update of its clock, and asks for the values of the next one.
  /// gradient  [count] float32; copied, unless it is gradient()'s memory
  [[nodiscard]] Result<void> push(TableId table, std::span<const float> gradient);
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
    TableSpec spec;
    std::span<float> values;
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
  std::vector<Table> tables_;
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
