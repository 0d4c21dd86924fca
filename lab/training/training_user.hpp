#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lab/node.hpp"
#include "lab/training/world.hpp"

namespace taut::lab {

/// The user: submits the job once servers and workers have joined, and then polls its status.
class TrainingUser final : public sim::Node {
 public:
  /// resume  the checkpoint that the job names; nullopt: none
  TrainingUser(World& world, pb::Job job, std::uint32_t servers,
               std::optional<pb::ResumePoint> resume);

  void receive(sim::SocketId socket, PeerId from, sim::Body body, TimePoint now) override;
  void step(TimePoint now) override;
  [[nodiscard]] TimePoint wake() const override { return next_; }

  /// The job's newest status; before it is submitted, an empty one.
  [[nodiscard]] const pb::JobStatus& status() const { return status_; }
  [[nodiscard]] bool is_over() const override { return status_.state() >= pb::DONE; }
  [[nodiscard]] bool has_submitted() const { return number_ > 0; }
  [[nodiscard]] TimePoint submitted_at() const { return submitted_at_; }
  /// Why the job was refused; empty if it was not.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  void send(const pb::ControlMessage& message);

  World& world_;
  const pb::Job job_;
  const std::uint32_t servers_;
  const std::optional<pb::ResumePoint> resume_;
  sim::SocketId socket_;
  PeerId coordinator_;
  bool have_joined_ = false;  // the processes
  std::uint64_t number_ = 0;  // of the job; 0: not submitted
  TimePoint submitted_at_;
  std::string refusal_;
  TimePoint next_;
  pb::JobStatus status_;
};

}  // namespace taut::lab
