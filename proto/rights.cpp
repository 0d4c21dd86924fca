#include "proto/rights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "proto/wire_version.hpp"

namespace taut {
namespace {

/// What a message does, as far as roles are concerned.
enum class Right : std::uint8_t {
  kRead,     // hello of a command; status, log; hello to a shard, snapshots; following
  kChange,   // submit, set-slack, checkpoint, stop, drain, trace, check
  kReport,   // heartbeat and goodbye of a daemon
  kWork,     // hello of a worker; tables, updates, reads; following that training waits for
  kServe,    // hello of a server; its answers about jobs; images between shards
  kNothing,  // messages that only the other side sends
};

struct Grant {
  Right right;
  std::string_view words;  // "... requires a key of the role X"
  bool view;
  bool submit;
  bool worker;
  bool server;
};

// The table. An owner may do everything.
constexpr std::array<Grant, 6> kGrants = {{
    {Right::kRead, "reading", true, true, true, true},
    {Right::kChange, "submitting, changing or stopping a job", false, true, false, false},
    {Right::kReport, "reporting as a daemon", false, false, true, true},
    {Right::kWork, "training", false, false, true, false},
    {Right::kServe, "serving parameters", false, false, false, true},
    {Right::kNothing, "a message that only the other side sends", false, false, false, false},
}};

const Grant& grant_of(Right right) {
  return *std::ranges::find(kGrants, right, &Grant::right);
}

bool has(KeyRole role, Right right) {
  const Grant& grant = grant_of(right);
  switch (role) {
    case KeyRole::kView:
      return grant.view;
    case KeyRole::kSubmit:
      return grant.submit;
    case KeyRole::kWorker:
      return grant.worker;
    case KeyRole::kServer:
      return grant.server;
    case KeyRole::kOwner:
      return true;
  }
  return false;
}

std::string roles_with(const Grant& grant) {
  std::string roles;
  const auto add = [&](bool granted, std::string_view role) {
    if (granted) roles += fmt::format("{}{}", roles.empty() ? "" : " or ", role);
  };
  add(grant.view, "view");
  add(grant.submit, "submit");
  add(grant.worker, "worker");
  add(grant.server, "server");
  return roles.empty() ? "owner" : roles;
}

/// Empty if the sender has the right.
std::string refusal_of(const Identity& sender, Right right) {
  if (has(sender.role, right)) return {};
  const Grant& grant = grant_of(right);
  return fmt::format("the key \"{}\" does not allow this: {} requires a key of the role {}",
                     sender.name, grant.words, roles_with(grant));
}

/// Empty if the sender is the one that it claims to be.
std::string refusal_of(const Identity& sender, std::string_view claimed) {
  if (sender.role == KeyRole::kOwner || sender.name == claimed) return {};
  return fmt::format(
      "the key \"{0}\" is not that of \"{1}\": use the name {0}, or make a key with \"tautline "
      "keys add {1}\"",
      sender.name, claimed);
}

Right right_of(pb::Role role) {
  switch (role) {
    case pb::ROLE_WORKER:
      return Right::kWork;
    case pb::ROLE_SERVER:
      return Right::kServe;
    default:
      return Right::kRead;
  }
}

Right right_of(const pb::ControlMessage& message) {
  switch (message.body_case()) {
    case pb::ControlMessage::kHello:
      return right_of(message.hello().role());
    case pb::ControlMessage::kStatusRequest:
    case pb::ControlMessage::kLogRequest:
      return Right::kRead;
    case pb::ControlMessage::kFollow:
      return message.follow().bounded() ? Right::kWork : Right::kRead;
    case pb::ControlMessage::kSubmit:
    case pb::ControlMessage::kSetSlack:
    case pb::ControlMessage::kStopJob:
    case pb::ControlMessage::kDrain:
    case pb::ControlMessage::kSetTrace:
    case pb::ControlMessage::kMakeCheckpoint:
    case pb::ControlMessage::kChangeQueue:
    case pb::ControlMessage::kCheckNodes:
      return Right::kChange;
    case pb::ControlMessage::kHeartbeat:
    case pb::ControlMessage::kGoodbye:
      return Right::kReport;
    case pb::ControlMessage::kServerJobReply:
      return Right::kServe;
    default:
      return Right::kNothing;
  }
}

Right right_of(const DataMessage& message) {
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    const bool reads_alone = std::ranges::all_of(batch->items, [](const DataItem& item) {
      return item.kind == pb::DataItem::SNAPSHOT || item.kind == pb::DataItem::FOLLOW;
    });
    return reads_alone ? Right::kRead : Right::kWork;
  }
  if (std::holds_alternative<pb::DataHello>(message.body)) return Right::kRead;
  if (std::holds_alternative<pb::Describe>(message.body)) return Right::kRead;
  const bool is_of_member = std::holds_alternative<pb::OpenTables>(message.body) ||
                            std::holds_alternative<pb::Confirm>(message.body);
  if (is_of_member) return Right::kWork;
  const bool is_between_shards = std::holds_alternative<DataImages>(message.body) ||
                                 std::holds_alternative<pb::SliceImagesReply>(message.body) ||
                                 std::holds_alternative<DataPartRequest>(message.body);
  return is_between_shards ? Right::kServe : Right::kNothing;
}

}  // namespace

std::string refusal_of(const Identity* sender, const pb::ControlMessage& message) {
  if (sender == nullptr) return {};
  const Right right = right_of(message);
  if (std::string refusal = refusal_of(*sender, right); !refusal.empty()) return refusal;
  if (message.has_follow() && !message.follow().address().empty()) {
    // Others connect to the address at which it claims to listen.
    if (std::string refusal = refusal_of(*sender, Right::kServe); !refusal.empty()) return refusal;
    return refusal_of(*sender, message.follow().name());
  }
  if (right == Right::kRead) return {};
  if (message.has_hello()) return refusal_of(*sender, message.hello().name());
  return message.has_follow() ? refusal_of(*sender, message.follow().name()) : std::string();
}

std::optional<pb::ControlMessage> refuse(const pb::ControlMessage& message,
                                         const std::string& reason) {
  pb::ControlMessage answer;
  answer.set_request(message.request());
  switch (message.body_case()) {
    case pb::ControlMessage::kHello:
      answer.mutable_hello_reply()->set_wire_version(kWireVersion);
      answer.mutable_hello_reply()->set_build(build_name());
      answer.mutable_hello_reply()->set_reason(reason);
      return answer;
    case pb::ControlMessage::kSubmit:
      answer.mutable_submit_reply()->set_error(reason);
      return answer;
    case pb::ControlMessage::kStatusRequest:
      answer.mutable_status_reply()->set_error(reason);
      return answer;
    case pb::ControlMessage::kLogRequest:
      answer.mutable_log_reply()->set_error(reason);
      return answer;
    case pb::ControlMessage::kSetSlack:
    case pb::ControlMessage::kStopJob:
    case pb::ControlMessage::kDrain:
    case pb::ControlMessage::kSetTrace:
    case pb::ControlMessage::kMakeCheckpoint:
    case pb::ControlMessage::kChangeQueue:
      answer.mutable_command_reply()->set_error(reason);
      return answer;
    case pb::ControlMessage::kCheckNodes:
      answer.mutable_check_nodes_reply()->set_error(reason);
      return answer;
    case pb::ControlMessage::kFollow:
      answer.mutable_follow_reply()->set_error(reason);
      return answer;
    default:
      return std::nullopt;
  }
}

std::string misuse_of(const TokenScope& scope, const DataMessage& message,
                      const std::optional<JobHere>& here) {
  const Right right = right_of(message);
  const bool is_hello = std::holds_alternative<pb::DataHello>(message.body);
  if (right == Right::kServe) {
    return scope.use == TokenUse::kServe ? "" : "it is not a server's";
  }
  if (scope.use == TokenUse::kCheck) {
    return is_hello && message.job == JobId() ? "" : "it is for hellos of a check alone";
  }
  const bool is_of_job = scope.use == TokenUse::kRead || scope.use == TokenUse::kTrain;
  if (!is_of_job || message.job != scope.job) return "it is for another job";
  if (here && here->submission != scope.submission) {
    return "it is for an earlier job of that number";
  }
  if (scope.use == TokenUse::kTrain) {
    if (message.worker != scope.worker) return "it is another member's";
    if (message.incarnation != scope.incarnation) return "it is of another life of that member";
    return !here || here->has_sender ? "" : "its member is not yet, or no longer, in the job";
  }
  // What a reader confirms is bound to its name.
  const bool reads = right == Right::kRead || std::holds_alternative<pb::Confirm>(message.body);
  return reads ? "" : "it is a reader's";
}

std::string refusal_of(const Identity* sender, const DataMessage& message,
                       const std::string& worker) {
  if (sender == nullptr) return {};
  const Right right = right_of(message);
  if (std::string refusal = refusal_of(*sender, right); !refusal.empty()) return refusal;
  // A number that no worker has is refused elsewhere.
  const bool is_bound = right == Right::kWork && !worker.empty();
  return is_bound ? refusal_of(*sender, worker) : std::string();
}

}  // namespace taut
