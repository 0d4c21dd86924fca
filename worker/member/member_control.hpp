#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/recent_rate.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"
#include "proto/session/control_link.hpp"
#include "worker/client/client.hpp"
#include "worker/client/client_load.hpp"

namespace taut {

/// What a member reports of the clock that it ends.
struct ClockReport {
  std::optional<double> loss;
  std::uint64_t items = 0;  // that it has trained at this clock
};

/// What the coordinator requests of a member.
struct MemberOrders {
  bool stop = false;   // the job is over, and what is pushed now is lost
  bool leave = false;  // at the end of a clock
  std::string reason;
};

/// A member's connection to the coordinator, on a dedicated thread: reports, and takes orders.
/// Thread    any, unless noted
class MemberControl {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MemberControl>> open(
      std::unique_ptr<Endpoint> endpoint, const std::string& coordinator, const std::string& name,
      JobId job, Duration start_wait);
  ~MemberControl();
  MemberControl(const MemberControl&) = delete;
  MemberControl& operator=(const MemberControl&) = delete;

  /// Waits for a place in the job; nullopt if there is none yet.
  /// Errors    unavailable, timeout, stale: why there will be none
  [[nodiscard]] Result<std::optional<pb::WorkerJob>> await_place(Duration wait);

  /// From now on passes the new addresses of shards to this client, and cancels it on an order to
  /// stop; nullptr: no client.
  void use(Client* client);
  /// Where that client writes its figures: a shard that does not answer it is reported.
  [[nodiscard]] const std::shared_ptr<ClientLoad>& load() const { return load_; }

  struct Figures {
    Clock clock;  // clocks that were ended
    std::optional<double> loss;
    std::uint64_t items = 0;
    Duration computed{0};
    Duration waited{0};
    TimePoint begun;  // of the first clock
    TimePoint ended;  // of the newest one
    StalenessHistogram staleness;
    Client::Traffic traffic;
  };
  void report(const Figures& figures);

  [[nodiscard]] MemberOrders orders() const;
  /// Why nothing can be pushed any more; nullopt if updates can be.
  [[nodiscard]] std::optional<Error> end() const;

  /// Reports that the member has left; await_left() follows.
  void begin_leave(bool finished, Duration wait);
  /// Waits until the coordinator has confirmed it; false if it has not yet.
  /// Errors    timeout: it has not confirmed within begin_leave()'s wait; closed: by cancel()
  [[nodiscard]] Result<bool> await_left(Duration at_most);
  /// Reports at once that the member's program has failed, and ends its calls.
  /// Errors    closed: it has left before; those of end()
  [[nodiscard]] Result<void> fail(const std::string& reason);
  /// Ends the member's current and later calls, and reports nothing.
  void cancel();

 private:
  explicit MemberControl(std::unique_ptr<ControlLink> link, JobId job);
  void run();
  void handle(const ControlEvent& event);
  void take_job(const pb::WorkerJob& job);
  void finish(ErrorCode code, std::string reason);
  void end_calls(Error error);
  [[nodiscard]] pb::Heartbeat heartbeat();
  [[nodiscard]] pb::Progress progress();

  const std::unique_ptr<ControlLink> link_;  // the thread's
  const JobId job_;
  const std::shared_ptr<ClientLoad> load_ = std::make_shared<ClientLoad>();
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::optional<pb::WorkerJob> place_;
  std::optional<Error> end_;
  MemberOrders orders_;
  Client* client_ = nullptr;
  Figures figures_;
  RecentRate rate_;
  bool is_urgent_ = false;
  bool has_left_ = false;
  bool has_finished_ = false;
  bool is_drained_ = false;
  bool is_cancelled_ = false;
  TimePoint left_by_;  // the coordinator confirms by then
  std::string error_;
  bool closes_ = false;
  std::thread thread_;
};

}  // namespace taut
