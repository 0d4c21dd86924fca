#include "server/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/failpoint.hpp"
#include "proto/rights.hpp"
#include "proto/wire_version.hpp"
#include "server/item_replies.hpp"

namespace taut::server {
namespace {

// Up to this many peers are remembered; then the oldest that is not a worker must say hello again.
constexpr std::size_t kMaxGreetings = 65536;

/// The answer to a message that its sender may not send.
std::vector<Outgoing> refuse_all(PeerId from, const DataMessage& message,
                                 const std::string& reason) {
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    Outbox out(message.job);
    for (const DataItem& item : batch->items) {
      out.add(from, refuse(item, pb::DataItem::NO_MEMBER, reason));
    }
    return out.take();
  }
  if (std::holds_alternative<pb::OpenTables>(message.body)) {
    pb::OpenTablesReply reply;
    reply.set_reason(reason);
    return {{from, DataMessage{message.job, {}, {}, std::move(reply)}}};
  }
  return {};
}

/// The first digits of a hash from a peer, if it is one: other bytes may not be text.
std::string short_hash(const std::string& hash) {
  const bool hex = !hash.empty() && std::ranges::all_of(hash, [](unsigned char digit) {
    return std::isxdigit(digit) != 0;
  });
  return hex ? hash.substr(0, 12) : fmt::format("({} bytes that are not a hash)", hash.size());
}

}  // namespace

std::vector<Outgoing> Shard::handle(PeerId from, DataMessage message, TimePoint now,
                                    const Identity* sender) {
  now_ = now;
  yield_spares();
  if (std::string reason = refusal_of_sender(message, sender); !reason.empty()) {
    return refuse_all(from, message, reason);
  }
  if (const auto* hello = std::get_if<pb::DataHello>(&message.body)) {
    return {{from, greet(from, message, *hello)}};
  }
  // Hosts send no hello first: the job's places determine which peer may send what.
  if (const auto* images = std::get_if<DataImages>(&message.body)) {
    return keep(from, message.job, *images);
  }
  if (const auto* reply = std::get_if<pb::SliceImagesReply>(&message.body)) {
    return note_kept(from, message.job, *reply, now);
  }
  const auto greeting = greeted_.find(from);
  if (greeting == greeted_.end()) {
    pb::DataHelloReply reply;
    reply.set_wire_version(kWireVersion);
    reply.set_build(build_name());
    reply.set_reason("say hello first");
    reply.set_greet_again(true);
    return {{from, DataMessage{message.job, {}, {}, std::move(reply)}}};
  }
  if (std::holds_alternative<pb::OpenTables>(message.body)) return take_opening(from, message);
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    Outbox out(message.job);
    serve(from, message, *batch, out);
    return out.take();
  }
  if (const auto* request = std::get_if<pb::Describe>(&message.body)) {
    return {{from, describe(message.job, *request)}};
  }
  if (const auto* confirm = std::get_if<pb::Confirm>(&message.body)) {
    return take_confirmation(from, message.job, *confirm);
  }
  return {};
}

/// Why the sender may not send a message; empty if it may.
std::string Shard::refusal_of_sender(const DataMessage& message, const Identity* sender) const {
  if (sender == nullptr) return {};
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return taut::refusal_of(sender, message, "");
  if (const auto* confirm = std::get_if<pb::Confirm>(&message.body)) {
    const auto& followers = job->second.view->follower_names;
    const auto follower = followers.find(FollowerId(confirm->follower()));
    return taut::refusal_of(sender, message,
                            follower == followers.end() ? std::string() : follower->second);
  }
  const auto& names = job->second.view->names;
  const auto name = names.find(message.worker);
  return taut::refusal_of(sender, message, name == names.end() ? std::string() : name->second);
}

std::string Shard::misuse_of(const TokenScope& scope, const DataMessage& message) const {
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return taut::misuse_of(scope, message, std::nullopt);
  const Member* member = job->second.view->membership.find(message.worker);
  const bool has_sender =
      member != nullptr && !member->fenced && member->incarnation == message.incarnation;
  return taut::misuse_of(scope, message, JobHere{job->second.view->submission, has_sender});
}

bool Shard::serves(const JobState& job, ShardId shard, std::uint64_t term) {
  const auto served = job.served.find(shard);
  return served != job.served.end() && served->second == term;
}

DataMessage Shard::greet(PeerId from, const DataMessage& message, const pb::DataHello& hello) {
  pb::DataHelloReply reply;
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  const auto job = jobs_.find(message.job);
  if (hello.wire_version() != kWireVersion) {
    reply.set_reason(
        wire_mismatch(kWireVersion, build_name(), hello.wire_version(), hello.build()));
  } else if (job == jobs_.end()) {
    reply.set_reason(
        fmt::format("job {} is unknown to shard {}", message.job.value(), id_.value()));
    // This host may have just started, in place of another one.
    reply.set_later(hello.term() > 0);
  } else if (job->second.view->hash != hello.job_hash()) {
    reply.set_job_hash(job->second.view->hash);
    reply.set_reason(fmt::format("job {} is {} here and {} there: the definitions differ",
                                 message.job.value(), short_hash(job->second.view->hash),
                                 short_hash(hello.job_hash())));
  } else if (hello.term() > 0 && !serves(job->second, ShardId(hello.shard()), hello.term())) {
    reply.set_reason(
        fmt::format("shard {} is not served here in term {}", hello.shard(), hello.term()));
    reply.set_later(true);
  } else {
    if (greeted_.size() >= kMaxGreetings) {
      const PeerId gone = readers_.empty() ? greeted_.begin()->first : *readers_.begin();
      greeted_.erase(gone);
      readers_.erase(gone);
    }
    Greeting& greeting = greeted_[from];
    if (job->second.view->membership.find(message.worker) == nullptr) readers_.insert(from);
    greeting = {message.job, {}, hello.term()};
    if (hello.has_shard()) greeting.shard = ShardId(hello.shard());
    reply.set_job_hash(job->second.view->hash);
    reply.set_accepted(true);
  }
  return DataMessage{message.job, {}, {}, std::move(reply)};
}

void Shard::follow_checkpoint(JobState& job) {
  job.capture.follow(*job.view, job.id, job.tables, job.slices, memory_, job.served.empty());
}

void Shard::yield_spares() {
  if (!memory_ || !memory_->is_short()) return;
  for (auto& [id, job] : jobs_) job.capture.return_spares();
}

std::vector<Outgoing> Shard::set_job(const std::shared_ptr<const JobView>& view,
                                     ShardImages begin) {
  if (view->finished) {
    const auto over = jobs_.find(view->job);
    if (over == jobs_.end()) return {};
    failpoint("job dropped");
    for (const auto& [index, slice] : over->second.slices) queues_.forget(*slice);
    // The slices' memory is freed first, so that it is returned with the rest.
    over->second.slices.clear();
    over->second.capture.return_spares();
    forget_greetings(view->job, {});
    over->second.images.hang_up(dial_);
    jobs_.erase(over);
    return {};
  }
  auto [entry, added] = jobs_.try_emplace(view->job, pool_, states_of(*view), work_);
  JobState& job = entry->second;
  if (!added && job.view->revision >= view->revision) return {};
  if (added) {
    job.id = id_;
    job.begin = std::move(begin);
  }
  job.view = view;
  if (!job.slack) job.slack = view->policies.read_slack();
  job.slack->set_members(view->membership);
  job.bound.update(view->follower_slack, view->followers);
  follow_places(job);
  Outbox out(view->job);
  std::vector<Answer> released;
  for (auto& [index, slice] : job.slices) {
    released.clear();
    const QueueCount count(queues_, *slice);
    // First, so that reads released by others' leaving do not exceed what a new follower allows.
    slice->limit_reads(job.bound.limit());
    slice->update(*view, released);
    job.images.note_push(index, *slice);
    if (!slice->bad_updates().empty()) note_bad_updates(job, *slice);
    add(released, job, *slice, out);
  }
  follow_checkpoint(job);
  serve_logged(job, out);
  note_settling(job);
  note_backed(job, out);
  show_kept(job, out);
  failpoint("revision adopted");
  return out.take();
}

}  // namespace taut::server
