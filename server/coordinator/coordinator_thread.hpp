#pragma once

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/bounded_queue.hpp"
#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/checkpoint_keeper.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store.hpp"

namespace taut {

/// Runs a Coordinator over a socket and a store: what changed is saved before anything is sent.
/// Bad frames are logged and dropped; nothing that a peer sends ends it.
/// Thread    owned and used by one thread; the coordinator runs in its own
class CoordinatorThread {
 public:
  struct Config {
    CoordinatorOptions coordinator;
    std::string address;  // "host:port"; port 0: chosen by the system
    Duration tick = std::chrono::milliseconds(100);
  };

  /// Listens, and recovers what the store holds.
  /// Errors    of binding (exists: the port is in use), of loading the store
  [[nodiscard]] static Result<std::unique_ptr<CoordinatorThread>> start(
      std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store, Config config);
  ~CoordinatorThread();
  CoordinatorThread(const CoordinatorThread&) = delete;
  CoordinatorThread& operator=(const CoordinatorThread&) = delete;

  /// Ends and joins the thread; what was saved stays. Again: nothing.
  void stop();

  /// Asks what a client could ask, from within the process, and waits for the answer. What it changes
  /// is saved before it is answered. Thread: any but the coordinator's.
  /// Errors    timeout; closed: the coordinator ends
  [[nodiscard]] Result<pb::ControlMessage> ask(const pb::ControlMessage& request, Duration wait);

  /// Where it listens, as bound.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Why it ended by itself; empty: it did not. Thread: any.
  [[nodiscard]] std::string failure() const;

 private:
  CoordinatorThread(std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store,
                    Config config);
  void run();
  void serve(Coordinator& coordinator);
  void carry_out(CoordinatorOutput output);
  void answer_questions(Coordinator& coordinator);
  /// A submission that resumes gets what its checkpoint says. Returns the refusal, if it is one.
  static std::optional<pb::ControlMessage> settle_resume(pb::ControlMessage& message);
  void note(const std::string& text);
  /// What the coordinator's state machine cannot know: the wall clock, and its log.
  void add_times(pb::StatusReply& status) const;

  const Config config_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<CoordinatorStore> store_;
  CoordinatorRecords recovered_;
  CoordinatorChanges unsaved_;
  CheckpointTasks undone_;  // until what they follow from is saved
  TimePoint next_warning_;  // a peer that sends garbage does not fill the log
  std::uint64_t quiet_warnings_ = 0;
  struct Question {
    pb::ControlMessage request;
    std::promise<pb::ControlMessage> answer;
  };
  BoundedQueue<std::shared_ptr<Question>> questions_{64};
  std::shared_ptr<Question> asking_;  // whose answer is being made
  std::deque<pb::LogLine> log_;       // the newest lines
  std::string address_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  std::thread thread_;

  void warn(const std::string& text);
};

}  // namespace taut
