// What the members and the backups of one job send, whatever it is, does no harm to another job of
// the same shard: two shards serve the other job's members, one of them both jobs, and the answers
// to them must be the same to the bit. Members keep to their own names, as their keys say.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/fuzzed_shard.hpp"

namespace taut::server::fuzzed {
namespace {

constexpr JobId kMisused{7};
constexpr JobId kOther{8};

// The first byte of a step.
constexpr std::uint8_t kMisuser = 0;
constexpr std::uint8_t kMisuse = 1;
constexpr std::uint8_t kMember = 2;
constexpr std::uint8_t kChange = 3;
constexpr std::uint8_t kBackup = 4;
constexpr std::uint8_t kExchange = 5;
constexpr std::uint8_t kKinds = 6;

const Identity kHost{"s0", KeyRole::kServer};

Identity identity_of(std::uint32_t worker) {
  return {"w" + std::to_string(worker), KeyRole::kWorker};
}

/// What its members' updates meet.
void draw_policies(Script& script, pb::ServerJob& job) {
  pb::Job& definition = *job.mutable_definition();
  switch (script.pick(5)) {
    case 1:
      definition.set_on_bad_update(pb::Job::REFUSE);
      break;
    case 2:
      definition.mutable_consistency()->set_mode(pb::Consistency::ASYNC);
      definition.mutable_consistency()->mutable_delay_compensation()->set_strength(0.5F);
      job.mutable_modes(0)->set_mode(pb::ModeChange::ON_ARRIVAL);
      job.set_slack(Slack::unbounded().clocks());
      break;
    case 3:
      definition.set_external_members(true);
      definition.set_workers(kMembers);
      break;
    case 4: {
      // kSparse, of all tables that are not kept by rows.
      pb::PushCompression& push = *definition.mutable_compression()->add_push();
      push.set_scheme(pb::PushCompression::TOP_K);
      push.set_keep(0.5F);
      push.set_min_values(1);
      break;
    }
    default:
      break;
  }
}

/// The misused job. This server is the primary of one of its two shards and the backup of the
/// other; a third host keeps images of both if each shard has two copies.
pb::ServerJob make_misused_job(Script& script) {
  constexpr std::array kSlacks = {0, 1, 3};
  pb::ServerJob job = make_job(kMisused, Slack(kSlacks.at(script.pick(kSlacks.size()))));
  draw_policies(script, job);
  if (!make_job_view(job).has_value()) job = make_job(kMisused, Slack(1));
  const std::uint32_t copies = script.pick(3);
  if (copies == 0) return job;
  job.set_replication_interval(1);
  job.set_logs_updates(script.pick(2) == 0);
  job.clear_shards();
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    pb::ShardInfo& info = *job.add_shards();
    info.set_shard(shard);
    info.set_host(shard);
    info.set_address(address_of(shard));
    info.set_term(1);
    info.set_copy(1);
    for (std::uint32_t copy = 0; copy < copies; ++copy) {
      const std::uint32_t host = copy == 0 ? 1 - shard : 2;
      pb::ShardBackup& backup = *info.add_backups();
      backup.set_host(host);
      backup.set_address(address_of(host));
      backup.set_choice(1);
    }
  }
  return job;
}

/// A host is lost, or lives and answers no member, as all of them report: it is no backup any more,
/// and the first backup of its shard serves that.
void leave_out(pb::ServerJob& job, std::uint32_t host) {
  for (pb::ShardInfo& shard : *job.mutable_shards()) {
    auto& backups = *shard.mutable_backups();
    const auto of_host = std::ranges::find(backups, host, &pb::ShardBackup::host);
    if (of_host != backups.end()) {
      backups.erase(of_host);
    } else if (shard.host() == host && !backups.empty()) {
      shard.set_host(backups[0].host());
      shard.set_address(backups[0].address());
      shard.set_term(shard.term() + 1);
      backups.erase(backups.begin());
    } else {
      continue;
    }
    shard.set_copy(shard.copy() + 1);
  }
}

void change(Script& script, pb::ServerJob& job) {
  job.set_revision(job.revision() + 1);
  pb::Member& member = *job.mutable_members(static_cast<int>(script.pick(kMembers)));
  switch (script.pick(6)) {
    case 0:
      member.set_fenced(true);
      break;
    case 1:
      member.set_leave_clock(static_cast<std::int64_t>(script.pick(8)));
      break;
    case 2:
      job.set_slack(static_cast<std::int64_t>(script.pick(8)));
      break;
    case 3:
      job.set_hold_from(script.pick(2) == 0 ? Clock::never().value()
                                            : static_cast<std::int64_t>(script.pick(8)));
      break;
    case 4:
      leave_out(job, 1);
      break;
    default:
      // It lives, and what its members and the other hosts send it arrives nevertheless.
      leave_out(job, 0);
  }
}

void play(Script script) {
  const pb::ServerJob other = make_job(kOther, Slack(1));
  pb::ServerJob misused = make_misused_job(script);
  Side both(other);
  Side alone(other);
  Side backup(misused, ShardId(1));
  Side second(misused, ShardId(2));
  const math::Encoding pushed = misused.definition().has_compression() ? kSparse : math::Encoding();
  const std::array<Side*, kHosts> hosts = {&both, &backup, &second};
  std::vector<Worker> misusers;
  std::vector<Worker> at_backup;  // the same members, at the other shard
  std::vector<Worker> members;
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    const std::uint64_t term = misused.shards(0).term();
    misusers.emplace_back(kMisused, i, 0, term, pushed);
    at_backup.emplace_back(kMisused, i, 1, term, pushed);
    members.emplace_back(kOther, i);
  }
  TimePoint now;
  const std::string other_hash = job_hash(other.definition());
  const std::string hash = job_hash(misused.definition());
  const auto serve_member = [&](std::uint32_t which) {
    const DataMessage message = members[which].next(other_hash);
    both.handle(PeerId(1 + which), message, now, identity_of(which));
    alone.handle(PeerId(1 + which), message, now, identity_of(which));
  };
  // Its tables are there before the memory is.
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (std::uint32_t which = 0; which < kMembers; ++which) serve_member(which);
  }
  both.set(misused);
  while (!script.is_over()) {
    now = now + Duration(1000);
    const std::uint32_t kind = script.pick(kKinds);
    const std::uint32_t which = script.pick(kMembers);
    const PeerId from(50 + which);
    switch (kind) {
      case kMisuser:
        if (script.pick(3) > 0) {
          both.handle(from, misusers[which].next(hash), now, identity_of(which));
        } else if (misused.shards_size() > 1) {
          backup.handle(from, at_backup[which].next(hash), now, identity_of(which));
        }
        break;
      case kExchange:
        // What is on its way between the hosts arrives, or some of it is lost.
        for (std::uint32_t host = 0; host < kHosts; ++host) {
          const bool is_lost = which == (host == 0 ? 0 : 2);
          for (const Side::Sent& one : hosts[host]->take_sent()) {
            if (!is_lost) hosts[one.to]->handle(peer_of(host), one.message, now, kHost);
          }
        }
        break;
      case kMisuse: {
        const auto message =
            hear(strange_message(script, kMisused, which, hash), identity_of(which));
        if (message && message->job != kOther) {
          both.handle(from, *message, now, identity_of(which));
        }
        break;
      }
      case kMember:
        serve_member(which);
        break;
      case kChange:
        change(script, misused);
        if (!make_job_view(misused).has_value()) break;
        both.set(misused);
        backup.set(misused);
        second.set(misused);
        break;
      case kBackup: {
        DataMessage message{kMisused, {}, {}, {}};
        if (script.pick(2) == 0) {
          DataImages images = strange_images(script);
          images.shard = ShardId(1);
          images.term = images.copy = 1;
          message.body = std::move(images);
        } else {
          pb::SliceImagesReply reply;
          reply.set_shard(script.pick(2));
          reply.set_term(1);
          reply.set_copy(1);
          for (std::uint32_t i = script.pick(3); i > 0; --i) {
            pb::SliceImagesReply::Kept& kept = *reply.add_kept();
            kept.set_table(script.pick(3));
            kept.set_slice(script.pick(2));
            kept.set_sequence(script.number());
          }
          for (std::uint32_t i = script.pick(3); i > 0; --i) {
            pb::SliceImagesReply::Logged& logged = *reply.add_logged();
            logged.set_worker(script.pick(kMembers));
            logged.set_table(script.pick(3));
            logged.set_slice(script.pick(2));
            logged.set_clock(static_cast<std::int64_t>(script.number()));
          }
          message.body = reply;
        }
        const auto heard = hear(message, kHost);
        if (heard) both.handle(peer_of(1), *heard, now, kHost);
        break;
      }
      default:
        break;
    }
    both.tick(now);
    alone.tick(now);
    backup.tick(now);
    second.tick(now);
    both.look(kMisused);
    TAUT_CHECK(both.take() == alone.take(), "a job has changed what another one's members see");
  }
}

}  // namespace
}  // namespace taut::server::fuzzed

std::vector<std::string> taut::fuzz::samples() {
  // Members of both jobs in turns at both hosts, in between messages of each kind, with one copy of
  // a shard and with two; the other host's shard is taken over, and its members come here. At times
  // this host's shard is then taken over too, while it lives. Compressed updates are summed in one
  // sample, and applied as they arrive in another.
  std::vector<std::string> samples;
  for (char policy = 0; policy < 10; ++policy) {
    const int copies = policy < 6 ? 1 + policy / 4 : 0;
    std::string steps{static_cast<char>(policy == 4 ? 0 : 1), static_cast<char>(policy % 5),
                      static_cast<char>(copies), static_cast<char>(policy % 2)};
    for (char round = 0; round < 12; ++round) {
      for (char member = 0; member < 3; ++member) {
        steps += std::string{2, member, 0, member, 1, 0, member, 0, 5, 1};
        if (round < 3) continue;
        const auto kind = static_cast<char>(round % 6);
        steps += std::string{1, member, 1, 1, kind, 2, 1, 1, 0, 1, 0, 0, 0};
      }
      if (round == 6) {
        steps += std::string{3, 0, 0, 4};
        for (char member = 0; member < 3; ++member) {
          steps += std::string{1, member, 1, 1, 0, 1, 0, 1, 0, 2, 1, 1};
          steps += std::string{1, member, 1, 1, 1, 2, 0, 1, 1, 1, 1, 2};
        }
      }
      if (round == 8 && copies == 2) steps += std::string{3, 0, 0, 5};
      if (round == 9) steps += std::string{3, 0, 1, 0, 4, 0, 0, 1, 1, 1, 2, 0, 1, 1, 0, 0, 1};
    }
    samples.push_back(steps);
  }
  return samples;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  taut::server::fuzzed::play(taut::fuzz::Script({data, size}));
  return 0;
}
