#include "proto/session/last_clocks.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

pb::WorkerJob state_of(std::uint64_t revision, std::int64_t saved_before) {
  pb::WorkerJob state;
  state.set_revision(revision);
  state.set_saved_before(saved_before);
  return state;
}

std::int64_t begun(const LastClocks& clocks) {
  pb::Progress progress;
  clocks.report(progress);
  return progress.begun();
}

}  // namespace

TEST_CASE("a member of a job that is saved to end trains up to its last clock", "[checkpoint]") {
  LastClocks clocks;
  clocks.take(state_of(1, 0));
  CHECK(clocks.begin(Clock(4)));
  CHECK(begun(clocks) == 5);
  clocks.take(state_of(2, 1));
  CHECK(!clocks.begin(Clock(5)));
  CHECK(begun(clocks) == 5);
  clocks.take(state_of(3, 7));
  CHECK(clocks.begin(Clock(5)));
  CHECK(clocks.begin(Clock(6)));
  CHECK(!clocks.begin(Clock(7)));
  // What is older takes nothing back.
  clocks.take(state_of(1, 0));
  CHECK(!clocks.begin(Clock(7)));
  CHECK(begun(clocks) == 7);
  clocks.take(state_of(4, 0));
  CHECK(clocks.begin(Clock(7)));
}

TEST_CASE("a report keeps what a job that balances says of its clocks", "[checkpoint]") {
  LastClocks clocks;
  pb::Progress progress;
  progress.set_begun(9);
  clocks.report(progress);
  CHECK(progress.begun() == 9);
}

}  // namespace taut
