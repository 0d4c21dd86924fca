#include "cli/node/following_node.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "cli/node/node_address.hpp"
#include "common/keys/key_folder.hpp"
#include "common/system/stop_signal.hpp"
#include "common/time.hpp"
#include "proto/wire_version.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr double kAnswerWithin_s = 2;
// The leader or its machine may have died: the engine ends this node too, or it ends itself.
constexpr Duration kSilenceLimit = std::chrono::seconds(60);
constexpr Duration kBetweenQuestions = std::chrono::seconds(2);
constexpr Duration kGrace = std::chrono::milliseconds(3500);
// After a signal, in addition to the time that the leader takes to save.
constexpr double kMoreThanSaving_s = 5;

}  // namespace

FollowingNode::FollowingNode(const NodeOptions& options, const NodePlace& place, NodeShare share,
                             std::filesystem::path folder)
    : options_(options),
      place_(place),
      share_(std::move(share)),
      meeting_(std::move(folder), place.attempt) {}

Result<ControlClient> FollowingNode::connect(const std::string& coordinator) const {
  TAUT_TRY(const Security security, user_security(meeting_.keys()));
  return connect_control(coordinator, kAnswerWithin_s, security);
}

Result<void> FollowingNode::find_leader() {
  const TimePoint deadline = steady_now() + from_seconds(options_.wait_s);
  std::string last = "it names no coordinator yet";
  while (true) {
    const Meeting::Leader leader = meeting_.leader();
    // The leader failed before it had a coordinator.
    if (leader.is_of_this_attempt) return make_error(ErrorCode::kClosed, "rank 0 has ended");
    if (!leader.coordinator.empty()) {
      auto control = connect(leader.coordinator);
      if (control) {
        coordinator_ = leader.coordinator;
        control_ = std::make_unique<ControlClient>(std::move(control).value());
        return ok();
      }
      last = control.error().message;
    }
    if (stop_signal() != 0) return make_error(ErrorCode::kClosed, "interrupted");
    if (steady_now() > deadline) {
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("rank {} found no leader in {} within {:g} s: {}; rank 0 must see the same "
                      "folder",
                      place_.rank, meeting_.folder().string(), options_.wait_s, last));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Result<void> FollowingNode::start_daemons() {
  const std::string leader = coordinator_.substr(0, coordinator_.rfind(':'));
  const bool in_brackets = leader.starts_with('[');
  TAUT_TRY(const std::string address,
           options_.host.empty()
               ? own_address_towards(in_brackets ? leader.substr(1, leader.size() - 2) : leader)
               : numeric_address(options_.host));
  daemons_ = DaemonGroup({.folder = meeting_.folder(), .keys = meeting_.keys(), .shielded = true});
  TAUT_TRY(start_share(share_, options_, place_.rank, address,
                       common_config(options_, coordinator_, meeting_.folder().string()),
                       daemons_));
  return meeting_.join({.rank = place_.rank,
                        .host = address,
                        .servers = share_.servers,
                        .workers = share_.workers,
                        .build = build_name()});
}

Result<int> FollowingNode::await_end() {
  TimePoint last_answer = steady_now();
  TimePoint next_question = last_answer + kBetweenQuestions;
  TimePoint until = TimePoint::never();
  control_->set_deadline(kBetweenQuestions);
  while (true) {
    const Meeting::Leader leader = meeting_.leader();
    if (leader.status) return *leader.status;
    // The leader saves the job; until then the daemons must work.
    if (stop_signal() != 0 && until == TimePoint::never()) {
      until = steady_now() + from_seconds(options_.save_s + kMoreThanSaving_s);
    }
    if (stop_is_urgent() || steady_now() > until) {
      return make_error(ErrorCode::kClosed, fmt::format("ended by signal {}", stop_signal()));
    }
    TAUT_TRY(daemons_.check());
    if (steady_now() > next_question) {
      if (control_->status()) last_answer = steady_now();
      next_question = steady_now() + kBetweenQuestions;
    }
    if (steady_now() - last_answer > kSilenceLimit) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("the coordinator at {} has not answered for {:g} s",
                                    coordinator_, seconds(kSilenceLimit)));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Result<int> FollowingNode::run() {
  TAUT_TRY(find_leader());
  TAUT_TRY(start_daemons());
  return await_end();
}

void FollowingNode::end() {
  for (const std::string& name : daemons_.stop(kGrace)) {
    fmt::print(stderr, "tautline node: {} did not end within {:g} s and was killed\n", name,
               seconds(kGrace));
  }
  if (!coordinator_.empty()) meeting_.leave(place_.rank);
}

}  // namespace taut::cli
