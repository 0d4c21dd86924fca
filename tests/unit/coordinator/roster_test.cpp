// What a job record keeps about its members, so that no message costs a look at each of them.
#include <random>
#include <set>

#include "server/coordinator/store/job_record.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

constexpr std::uint32_t kSlots = 6;

JobRecord job_of_six() {
  pb::StoredJob stored;
  stored.set_job(1);
  stored.set_state(pb::RUNNING);
  stored.set_slots(kSlots);
  return {std::move(stored), TimePoint()};
}

void add(JobRecord& job, std::uint32_t slot, std::uint64_t incarnation) {
  pb::Member member;
  member.set_worker(job.next_worker());
  member.set_slot(slot);
  member.set_incarnation(incarnation);
  member.set_leave_clock(Clock::never().value());
  job.add_member(member, 1, "");
}

pb::Progress finished() {
  pb::Progress progress;
  progress.set_finished(true);
  return progress;
}

/// What a look at every member finds.
void check_against_members(const JobRecord& job) {
  std::uint32_t working = 0;
  std::uint32_t done = 0;
  std::uint32_t leaving = 0;
  std::set<std::uint32_t> free;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) free.insert(slot);
  for (const pb::StoredMember& one : job.stored().members()) {
    const bool leaves = one.member().leave_clock() != Clock::never().value();
    working += job.works(one) ? 1 : 0;
    done += one.finished() ? 1 : 0;
    leaving += one.lost() && !leaves ? 1 : 0;
    if (!one.lost() || one.finished()) free.erase(one.member().slot());
  }
  CHECK(job.working() == working);
  CHECK(job.roster().finished() == done);
  CHECK(job.roster().leaving() == leaving);
  const auto& slots = job.roster().free_slots();
  CHECK(std::vector<std::uint32_t>(free.begin(), free.end()) == slots);
}

TEST_CASE("members that finish at once are one revision for the servers, also after a restart",
          "[roster]") {
  pb::StoredJob stored;
  stored.set_job(1);
  stored.set_state(pb::RUNNING);
  stored.set_slots(100);
  stored.set_replication_interval(4);
  JobRecord job(std::move(stored), TimePoint());
  for (std::uint32_t slot = 0; slot < 100; ++slot) add(job, slot, slot + 1);
  const std::uint64_t before = job.stored().revision();
  job.revise_finished();
  CHECK(job.stored().revision() == before);
  for (int i = 0; i < 50; ++i) job.take_progress(i, finished(), TimePoint());
  CHECK(job.stored().revision() == before);
  (void)job.take_changed();
  job.revise_finished();
  CHECK(job.stored().revision() == before + 1);
  CHECK(job.take_changed());
  job.revise_finished();
  CHECK(job.stored().revision() == before + 1);
  // Any other revision says it too.
  job.take_progress(50, finished(), TimePoint());
  job.revise();
  job.revise_finished();
  CHECK(job.stored().revision() == before + 2);
  job.take_progress(51, finished(), TimePoint());
  JobRecord again = JobRecord::recover(job.stored(), TimePoint());
  again.revise_finished();
  CHECK(again.stored().revision() == before + 3);
}

TEST_CASE("what is kept of the members is what a look at each of them finds", "[roster]") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  JobRecord job = job_of_six();
  std::uint64_t incarnation = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) add(job, slot, ++incarnation);
  for (int step = 0; step < 60; ++step) {
    CAPTURE(step);
    const int index = static_cast<int>(random() % job.workers.size());
    switch (random() % 4) {
      case 0:
        job.take_progress(index, finished(), TimePoint());
        break;
      case 1:
        job.change().mutable_members(index)->set_lost(true);
        break;
      case 2:
        if (!job.stored().members(index).lost()) break;
        job.change().mutable_members(index)->mutable_member()->set_leave_clock(step);
        break;
      default:
        if (job.roster().free_slots().empty()) break;
        add(job, job.roster().free_slots().front(), ++incarnation);
    }
    check_against_members(job);
  }
}

TEST_CASE("a life is found at its newest member, and no other is", "[roster]") {
  JobRecord job = job_of_six();
  add(job, 0, 7);
  add(job, 1, 8);
  CHECK(job.find_member(Incarnation(8)) == 1);
  CHECK(job.find_member(Incarnation(9)) == -1);
  add(job, 1, 7);
  CHECK(job.find_member(Incarnation(7)) == 2);
}

TEST_CASE("members that have left become past, and only the newest of them stay", "[roster]") {
  JobRecord job = job_of_six();
  for (std::uint64_t life = 1; life <= 40; ++life) {
    add(job, 0, life);
    job.change().mutable_members(job.stored().members_size() - 1)->set_lost(true);
  }
  add(job, 0, 41);
  job.forget_past(Clock(5));
  CHECK(job.stored().members_size() == 41);  // their leave clocks are not known
  for (int i = 0; i < 40; ++i) {
    job.change().mutable_members(i)->mutable_member()->set_leave_clock(5);
  }
  job.forget_past(Clock(4));
  CHECK(job.roster().past() == 0);
  job.forget_past(Clock(5));
  CHECK(job.roster().past() == JobRecord::kMaxPast);
  CHECK(job.roster().left() == 0);
  CHECK(job.find_member(Incarnation(8)) == -1);
  CHECK(job.find_member(Incarnation(9)) == 0);
  CHECK(job.find_member(Incarnation(41)) == JobRecord::kMaxPast);
}

}  // namespace
}  // namespace taut
