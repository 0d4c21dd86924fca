// A member in C++, for scripts/bench/torch_members: what its push, pull and end of a clock take. A
// line on standard input is one turn.
// usage: member_calls COORDINATOR KEYS JOB VALUES CLOCKS
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "common/keys/key_folder.hpp"
#include "common/time.hpp"
#include "worker/member/job_member.hpp"

namespace {

using namespace taut;

Result<void> clock_of(JobMember& member, TableId table, const std::vector<float>& update) {
  TAUT_TRY(member.push(table, update));
  TAUT_TRY(member.pull(table, Duration::max()));
  TAUT_TRY(member.end_clock({}));
  return ok();
}

Result<void> run(const std::vector<std::string>& words) {
  MemberOptions options;
  options.coordinator = words[0];
  options.job = JobId(std::stoull(words[2]));
  options.name = "member_calls";
  TAUT_TRY(options.security, daemon_security(words[1], options.name, KeyRole::kWorker));
  TAUT_TRY(const auto member, JobMember::join(options));
  TAUT_TRY(member->await_place(Duration::max()));
  std::vector<float> values(std::stoull(words[3]));
  const std::vector<float> update(values.size(), 1.0F);
  TAUT_TRY(const TableId table, member->add_table("w", {static_cast<std::int64_t>(values.size())},
                                                  TableKind::kTrained, values));
  TAUT_TRY(member->open(Duration::max()));
  const int clocks = std::stoi(words[4]);
  std::string turn;
  while (std::getline(std::cin, turn)) {
    const TimePoint begin = steady_now();
    for (int i = 0; i < clocks; ++i) {
      TAUT_TRY(clock_of(*member, table, update));
    }
    fmt::print("{}\n", seconds(steady_now() - begin) / clocks);
    std::fflush(stdout);
  }
  TAUT_TRY(member->leave(true, Duration::max()));
  return ok();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 5) {
    fmt::print(stderr, "usage: member_calls COORDINATOR KEYS JOB VALUES CLOCKS\n");
    return 2;
  }
  try {
    if (const auto done = run(words); !done) {
      fmt::print(stderr, "member_calls: {}\n", done.error().message);
      return 1;
    }
  } catch (const std::exception& failure) {
    fmt::print(stderr, "member_calls: {}\n", failure.what());
    return 1;
  }
  return 0;
}
