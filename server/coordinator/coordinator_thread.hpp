#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/net/endpoint.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/leadership.hpp"
#include "server/coordinator/runs/run_keeper.hpp"
#include "server/coordinator/store/save_before_send.hpp"
#include "server/coordinator/store/store.hpp"
#include "server/parts/part_client.hpp"

namespace taut {

/// Runs a Coordinator over a socket and a store: changes are saved before anything is sent.
/// Malformed frames are logged and dropped; nothing that a peer sends ends it. Where several
/// processes could coordinate, it stands by until it leads, and meanwhile names the leader to every
/// process that asks.
/// Thread    owned and used by one thread; the coordinator has a dedicated one
class CoordinatorThread {
 public:
  struct Config {
    CoordinatorOptions coordinator;
    std::string address;                     // "host:port"; port 0: chosen by the system
    std::filesystem::path run_folder;        // contains the jobs' folders; empty: none is kept
    std::shared_ptr<Leadership> leadership;  // nullptr: it always leads
    Duration tick = std::chrono::milliseconds(100);
    /// Reaches the servers' parts of coded checkpoints; empty if there are none.
    std::function<std::unique_ptr<server::PartClient>()> make_part_client = {};
    /// Makes the secrets of a plain data plane; nullopt if it is not plain.
    std::optional<TokenKey> tokens{};
  };

  /// Listens, and recovers the stored state: at once, or with a leadership, when it leads.
  /// Errors    of binding (exists: the port is in use), of loading the store
  [[nodiscard]] static Result<std::unique_ptr<CoordinatorThread>> start(
      std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store, Config config);
  ~CoordinatorThread();
  CoordinatorThread(const CoordinatorThread&) = delete;
  CoordinatorThread& operator=(const CoordinatorThread&) = delete;

  /// Ends and joins the thread; saved state remains. A second call does nothing.
  void stop();

  /// Makes a client's request from within the process, and waits for the answer. Its changes
  /// are saved before it is answered. Thread: any but the coordinator's.
  /// Errors    timeout; closed: the coordinator is ending
  [[nodiscard]] Result<pb::ControlMessage> ask(const pb::ControlMessage& request, Duration wait);

  /// The address as bound.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Why the coordinator failed; empty if it did not. Thread: any.
  [[nodiscard]] std::string failure() const;

 private:
  CoordinatorThread(std::unique_ptr<Endpoint> endpoint, std::unique_ptr<CoordinatorStore> store,
                    Config config);
  void run();
  void lead();
  [[nodiscard]] bool leads() const;
  void stand_by();
  [[nodiscard]] Result<void> recover();
  void serve(Coordinator& coordinator);
  void carry_out(CoordinatorOutput output);
  /// Handles a failed save. Throws if the disk's content is unknown.
  void take_failure(const Error& failure);
  void answer_questions(Coordinator& coordinator);
  static void name_user(const Incoming& incoming, pb::ControlMessage& message);
  /// Answers a message that its sender has no right to send. Returns whether it was refused.
  bool refuse_sender(const Incoming& incoming, const pb::ControlMessage& message);
  /// Answers requests that the state machine need not see, and refuses bad submissions.
  std::optional<pb::ControlMessage> answer_outside(pb::ControlMessage& message);
  [[nodiscard]] pb::ControlMessage redirection(std::uint64_t request) const;
  /// Checks a submission's size and its checkpoints' folder, and adds the resume point to one that
  /// resumes. Returns the refusal, if any.
  [[nodiscard]] std::optional<pb::ControlMessage> settle_submission(
      pb::ControlMessage& message) const;
  void note(const Note& note);
  /// Makes the folders of new jobs and the summaries of ended ones.
  void keep(const CoordinatorChanges& changes);
  /// Stores the records in a heartbeat. Returns how much of each has been received.
  std::vector<pb::RecordMark> keep(PeerId from, const pb::Heartbeat& heartbeat,
                                   const Coordinator& coordinator);
  /// Adds what the state machine cannot know, such as the wall clock and the log.
  void add_times(pb::StatusReply& status) const;

  const Config config_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<CoordinatorStore> store_;
  CoordinatorRecords recovered_;
  std::optional<SaveBeforeSend> saves_;  // of the current term
  std::string unsaved_;                  // why the newest save failed; empty if it did not
  TimePoint next_warning_;               // so that a peer that sends garbage cannot fill the log
  std::uint64_t quiet_warnings_ = 0;
  struct Question {
    pb::ControlMessage request;
    std::promise<pb::ControlMessage> answer;
  };
  BoundedQueue<std::shared_ptr<Question>> questions_{64};
  std::shared_ptr<Question> asking_;  // the request that is being answered
  std::deque<pb::LogLine> log_;       // the newest lines
  std::string address_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> stands_by_{false};
  bool deposed_ = false;  // the store has refused a save: another process leads
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  RunKeeper runs_;
  pb::RunOrigin origin_;  // of the submission being handled
  std::thread thread_;

  void warn(const std::string& text);
};

}  // namespace taut
