#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/math/filler.hpp"
#include "common/net/buffer_pool.hpp"
#include "common/net/endpoint.hpp"
#include "proto/config/job_state.hpp"
#include "proto/data_message.hpp"
#include "server/job_view.hpp"
#include "tests/support/catch.hpp"

namespace taut::test {

/// The sender of messages where a test needs one only.
inline constexpr PeerId kPeer{1};

/// Builds what a coordinator would send of a job, and changes it as epochs would.
class JobMaker {
 public:
  /// slack  0: BSP
  explicit JobMaker(int members, Slack slack = Slack(0), std::uint32_t shards = 1) {
    state.set_job(7);
    state.set_revision(1);
    state.mutable_definition()->set_seed(42);
    pb::SolverParameter& solver = *state.mutable_definition()->mutable_solver_param();
    solver.set_base_lr(0.5F);
    solver.set_max_iter(1000);
    for (int i = 0; i < members; ++i) join(Clock(0));
    auto& mode = *state.add_modes();
    mode.set_first_clock(0);
    mode.set_mode(slack == Slack(0) ? pb::ModeChange::AGGREGATE : pb::ModeChange::ON_ARRIVAL);
    state.set_slack(slack.clocks());
    state.set_hold_from(Clock::never().value());
    for (std::uint32_t i = 0; i < shards; ++i) state.add_shards()->set_shard(i);
  }

  WorkerId join(Clock from) {
    pb::Member& member = *state.add_members();
    member.set_worker(static_cast<std::uint32_t>(state.members_size() - 1));
    member.set_incarnation(100 + member.worker());
    member.set_join_clock(from.value());
    member.set_leave_clock(Clock::never().value());
    return WorkerId(member.worker());
  }
  void fence(WorkerId worker) { member(worker).set_fenced(true); }
  void leave(WorkerId worker, Clock cut) {
    fence(worker);
    member(worker).set_leave_clock(cut.value());
  }
  void mode_from(Clock clock, pb::ModeChange::Mode mode) {
    auto& change = *state.add_modes();
    change.set_first_clock(clock.value());
    change.set_mode(mode);
  }
  [[nodiscard]] pb::SolverParameter& solver() {
    return *state.mutable_definition()->mutable_solver_param();
  }
  [[nodiscard]] pb::Member& member(WorkerId worker) {
    return *state.mutable_members(static_cast<int>(worker.value()));
  }
  [[nodiscard]] Incarnation incarnation(WorkerId worker) {
    return Incarnation(member(worker).incarnation());
  }
  [[nodiscard]] std::string hash() const { return job_hash(state.definition()); }

  /// The current view; each call is a newer revision.
  [[nodiscard]] std::shared_ptr<const server::JobView> view() {
    auto current = server::make_job_view(state);
    REQUIRE(current.has_value());
    state.set_revision(state.revision() + 1);
    return current.value();
  }

  pb::ServerJob state;
};

inline TableSpec make_table(std::uint32_t id, std::vector<std::int64_t> shape,
                            TableKind kind = TableKind::kTrained) {
  TableSpec table;
  table.id = TableId(id);
  table.name = "table" + std::to_string(id);
  table.shape = std::move(shape);
  table.kind = kind;
  table.filler = {math::Filler::Kind::kUniform, -1.0F, 1.0F};
  return table;
}

inline Frame frame_of(const std::vector<float>& values) {
  return Frame::copy_of(std::as_bytes(std::span(values)));
}

inline std::vector<float> floats_of(const Frame& frame) {
  std::vector<float> values(frame.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), frame.bytes().data(), frame.size());
  return values;
}

/// Values that two workers or clocks do not share; their sums depend on the order.
inline std::vector<float> gradient_of(std::uint32_t worker, std::int64_t clock, std::size_t count,
                                      std::uint64_t seed = 3) {
  std::vector<float> values(count);
  const std::string stream = std::to_string(worker) + "/" + std::to_string(clock);
  math::fill({math::Filler::Kind::kGaussian, 0.0F, 1.0F}, seed, stream, 0, values);
  return values;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace taut::test
