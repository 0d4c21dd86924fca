// What the holder of a key that is no member sends to a shard changes nothing for the members: two
// shards get the same members' messages, one of them the stranger's too, and their answers must be
// the same to the bit.
#include <google/protobuf/stubs/logging.h>

#include <array>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/fuzzed_shard.hpp"

namespace taut::server::fuzzed {
namespace {

constexpr JobId kJob{7};

// The first byte of a step.
constexpr std::uint8_t kMember = 0;
constexpr std::uint8_t kStranger = 1;
constexpr std::uint8_t kChange = 2;

void play(Script script) {
  constexpr std::array kSlacks = {0, 1, 3};
  pb::ServerJob job = make_job(kJob, Slack(kSlacks.at(script.pick(kSlacks.size()))));
  const std::string hash = job_hash(job.definition());
  Side disturbed(job);
  Side quiet(job);
  std::vector<Worker> workers;
  for (std::uint32_t i = 0; i < kMembers; ++i) workers.emplace_back(kJob, i);
  TimePoint now;
  while (!script.is_over()) {
    now = now + Duration(1000);
    switch (script.pick(3)) {
      case kMember: {
        const std::uint32_t which = script.pick(kMembers);
        const Identity self{"w" + std::to_string(which), KeyRole::kWorker};
        const DataMessage message = workers[which].next(hash);
        disturbed.handle(PeerId(1 + which), message, now, self);
        quiet.handle(PeerId(1 + which), message, now, self);
        break;
      }
      case kStranger: {
        constexpr std::array kRoles = {KeyRole::kView, KeyRole::kSubmit, KeyRole::kWorker};
        const Identity mallory{"mallory", kRoles.at(script.pick(kRoles.size()))};
        const PeerId from(kStrangers + script.pick(4));
        const auto message =
            hear(strange_message(script, kJob, script.pick(kMembers + 1), hash), mallory);
        if (message) disturbed.handle(from, *message, now, mallory);
        break;
      }
      case kChange: {
        // A member is lost at times, which both hear.
        if (script.pick(16) != 0) break;
        job.set_revision(job.revision() + 1);
        job.mutable_members(static_cast<int>(script.pick(kMembers)))->set_fenced(true);
        disturbed.set(job);
        quiet.set(job);
        break;
      }
      default:
        break;
    }
    TAUT_CHECK(disturbed.take() == quiet.take(), "a stranger has changed what members see");
    TAUT_CHECK(disturbed.counts() == quiet.counts(), "a stranger has taken a place");
  }
}

}  // namespace
}  // namespace taut::server::fuzzed

std::vector<std::string> taut::fuzz::samples() {
  // Each member four times, with a stranger's message of each kind before.
  std::vector<std::string> samples;
  for (char slack = 0; slack < 3; ++slack) {
    std::string steps(1, slack);
    for (int round = 0; round < 12; ++round) {
      for (char member = 0; member < 3; ++member) {
        for (char kind = 0; kind < 6; ++kind) {
          steps += std::string{1, 2, 0, static_cast<char>(round % 4), 1, 1, kind};
          steps += std::string{2, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0};
        }
        steps += std::string{0, member};
      }
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
