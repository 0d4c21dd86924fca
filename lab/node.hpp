#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lab/network.hpp"
#include "proto/session/control_session.hpp"
#include "server/coordinator/checkpoints/checkpoint_keeper.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/store/save_before_send.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut::sim {

/// Where the coordinator of a simulated cluster listens.
inline constexpr const char* kCoordinatorAddress = "coordinator:1";

/// A process: a daemon's state machines and what drives them, without threads or sockets.
class Node {
 public:
  virtual ~Node() = default;
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual void receive(SocketId socket, PeerId from, Body body, TimePoint now) = 0;
  /// Does what is due, and sends pending messages. Called after receive(), and at wake().
  virtual void step(TimePoint now) = 0;
  [[nodiscard]] virtual TimePoint wake() const = 0;
  /// Whether it ends on its own.
  [[nodiscard]] virtual bool is_over() const { return false; }
  /// When it is started again after it ends: as a drained process is, soon, or never.
  enum class Return : std::uint8_t { kAsDrained, kSoon, kNever };
  [[nodiscard]] virtual Return returns() const { return Return::kAsDrained; }
};

/// A process with a line to the coordinator, as servers and workers have it.
class ControlNode : public Node {
 public:
  ControlNode(Network& network, NodeId node, ControlIdentity identity, ControlTimings timings);
  void receive(SocketId socket, PeerId from, Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override { return session_.next_tick(); }
  [[nodiscard]] bool is_over() const override { return is_drained_; }
  /// Hands its work over, then ends.
  virtual void hand_over() { session_.leave(); }
  /// Tells the coordinator that it ends, which otherwise waits for its heartbeats.
  void say_goodbye(const std::string& reason);

 protected:
  virtual void on_event(const ControlEvent& event, TimePoint now) = 0;
  virtual void on_data(SocketId socket, PeerId from, DataMessage message, TimePoint now) = 0;
  void report(pb::Heartbeat content, bool urgent) { session_.report(std::move(content), urgent); }

  Network& network_;
  const NodeId node_;

 private:
  void act(ControlOutput output, TimePoint now);

  SocketId socket_;
  PeerId coordinator_;
  ControlSession session_;
  bool is_drained_ = false;
};

/// Carries out what a coordinator requires of files, at once.
using DoTask = std::function<DoneCheckpointTask(CheckpointTask task)>;

/// The coordinator. It ends when its store reports that the disk's content is unknown.
class CoordinatorNode final : public Node {
 public:
  /// learns_of_closed  whether it is notified when a process ends and its connections close, as
  ///                   daemons are
  CoordinatorNode(Network& network, std::unique_ptr<CoordinatorStore> store, NodeId node,
                  CoordinatorOptions options, DoTask do_task = {}, bool learns_of_closed = false);
  ~CoordinatorNode() override { network_.close(socket_); }
  void receive(SocketId socket, PeerId from, Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override { return next_; }
  [[nodiscard]] bool is_over() const override { return steps_down_; }
  [[nodiscard]] Return returns() const override { return Return::kSoon; }

 private:
  void carry_out(CoordinatorOutput output);

  Network& network_;
  SocketId socket_;
  std::unique_ptr<CoordinatorStore> store_;
  Coordinator coordinator_;
  SaveBeforeSend saves_;
  bool steps_down_ = false;
  const DoTask do_task_;  // empty: tasks on files never fail
  const bool learns_of_closed_;
  TimePoint next_;
};

}  // namespace taut::sim
