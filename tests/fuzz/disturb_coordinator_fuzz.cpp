// What the holder of a key that has no part in a job sends to the coordinator does not keep the job
// from its end, and costs it no member.
#include <google/protobuf/stubs/logging.h>

#include <array>
#include <string>
#include <vector>

#include "common/check.hpp"
#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

namespace taut {
namespace {

using fuzz::Script;

constexpr std::uint64_t kStrangers = 1'000'000;  // the first of their connections
constexpr std::array kNames = {"mallory", "w0", "w1", "s0", "s1", ""};

void fill(Script& script, pb::ServerJobReply& reply) {
  reply.set_job(script.pick(4));
  reply.set_revision(script.number());
  reply.set_max_done(static_cast<std::int64_t>(script.number()));
  reply.set_min_version(static_cast<std::int64_t>(script.number()));
  if (script.pick(2) == 0) reply.set_error("broken");
  pb::FencedProgress& fenced = *reply.add_fenced();
  fenced.set_worker(script.pick(3));
  pb::BadUpdates& bad = *reply.add_bad_updates();
  bad.set_worker(script.pick(3));
  bad.set_clocks(script.number());
}

void fill(Script& script, pb::Progress& progress) {
  progress.set_job(script.pick(4));
  progress.set_revision(script.number());
  progress.set_incarnation(script.number());
  progress.set_clock(static_cast<std::int64_t>(script.number()));
  progress.set_finished(script.pick(2) == 0);
  progress.set_left(script.pick(2) == 0);
  progress.set_diverged(script.pick(2) == 0);
  if (script.pick(2) == 0) progress.set_error("broken");
}

pb::ControlMessage strange_message(Script& script) {
  pb::ControlMessage message;
  message.set_request(script.number());
  switch (script.pick(8)) {
    case 0:
    case 1: {
      pb::Hello& hello = *message.mutable_hello();
      hello.set_wire_version(script.pick(8) == 0 ? 1 : kWireVersion);
      hello.set_role(static_cast<pb::Role>(script.pick(5)));
      hello.set_name(kNames.at(script.pick(kNames.size())));
      hello.set_session(script.number());
      for (std::uint32_t i = script.pick(4); i > 0; --i) hello.add_shard_addresses("127.0.0.1:1");
      break;
    }
    case 2:
    case 3: {
      pb::Heartbeat& heartbeat = *message.mutable_heartbeat();
      heartbeat.set_incarnation(script.number());
      heartbeat.set_leaves(script.pick(8) == 0);
      if (script.pick(2) == 0) fill(script, *heartbeat.mutable_progress());
      for (std::uint32_t i = script.pick(3); i > 0; --i) fill(script, *heartbeat.add_jobs());
      break;
    }
    case 4:
      fill(script, *message.mutable_server_job_reply());
      break;
    case 5:
      message.mutable_goodbye()->set_reason("good bye");
      break;
    case 6:
      message.mutable_status_request()->set_job(script.pick(4));
      break;
    default: {
      // None of these is for a reader or a worker.
      const std::uint32_t which = script.pick(5);
      if (which == 0) message.mutable_stop_job()->set_job(1);
      if (which == 1) message.mutable_drain()->set_name(kNames.at(script.pick(kNames.size())));
      if (which == 2) message.mutable_set_slack()->set_job(1);
      if (which == 3) message.mutable_worker_job()->set_job(1);
      if (which == 4) message.mutable_change_queue()->set_job(1);
    }
  }
  return message;
}

void play(Script script) {
  FakeCluster cluster(1 + script.byte());
  for (const char* name : {"s0", "s1"}) cluster.add_server(name);
  for (const char* name : {"w0", "w1"}) cluster.add_worker(name);
  cluster.run_for(std::chrono::seconds(1));
  const std::uint64_t job = cluster.submit(make_job(2, 200)).job();
  while (!script.is_over()) {
    const Identity mallory{"mallory", script.pick(2) == 0 ? KeyRole::kView : KeyRole::kWorker};
    const PeerId from(kStrangers + script.pick(4));
    const auto message = decode_control(encode(strange_message(script)));
    if (message) cluster.hear(from, mallory, message.value());
    cluster.run_for(std::chrono::milliseconds(script.pick(64)));
  }
  TAUT_CHECK(cluster.run_until_state(job, pb::DONE), "the job ends");
  const pb::JobStatus status = cluster.status(job);
  TAUT_CHECK(status.workers_size() == 2, "no process has joined or left");
  for (const pb::WorkerStatus& worker : status.workers()) {
    TAUT_CHECK(worker.name() != "mallory" && worker.state() == pb::PROCESS_FINISHED,
               "each member has trained its part");
  }
  TAUT_CHECK(cluster.broken().empty(), "no server has found a contradiction");
}

}  // namespace
}  // namespace taut

std::vector<std::string> taut::fuzz::samples() {
  // A message of each kind, to a job that begins and to one that runs.
  std::vector<std::string> samples;
  for (char role = 0; role < 2; ++role) {
    std::string steps(1, role);
    for (char kind = 0; kind < 8; ++kind) {
      steps += std::string{role, kind, 0, kind, 1, static_cast<char>(2 - role), 0, 7, 0, 20};
      steps += std::string{role, 1, 0, 2, 3, 0, 0, 1, 1, 2, 3, 1, 1, 1, 1, 30};
    }
    samples.push_back(steps);
  }
  return samples;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  taut::play(taut::fuzz::Script({data, size < 200 ? size : 200}));
  return 0;
}
