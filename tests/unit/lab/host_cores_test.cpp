#include "lab/training/host_cores.hpp"

#include <optional>
#include <vector>

#include "tests/support/catch.hpp"

namespace taut::lab {
namespace {

/// No message is sent here.
class NoJourney final : public sim::Journey {
 public:
  std::optional<TimePoint> depart(const Trip&, TimePoint now) override { return now; }
};

struct Bench {
  NoJourney journey;
  sim::Network clock{journey};
  Agenda agenda;
  std::vector<std::int64_t> ended;  // in microseconds

  HostCores::Done note() {
    return [this] { ended.push_back(clock.now().since_origin().count()); };
  }
  void run_all() {
    while (agenda.next() != TimePoint::never()) {
      clock.advance(agenda.next());
      agenda.take()();
    }
  }
};

}  // namespace

TEST_CASE("threads on separate cores do not slow each other down", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 2, 1);
  machine.run(1000, bench.note());
  machine.run(3000, bench.note());
  bench.run_all();
  CHECK(bench.ended == std::vector<std::int64_t>{1000, 3000});
}

TEST_CASE("four threads on two cores take twice as long as on four", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 2, 1);
  for (int i = 0; i < 4; ++i) machine.run(1000, bench.note());
  bench.run_all();
  CHECK(bench.ended == std::vector<std::int64_t>{2000, 2000, 2000, 2000});
}

TEST_CASE("a thread is faster from the moment on at which another one ends", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 1, 1);
  machine.run(1000, bench.note());
  machine.run(3000, bench.note());
  bench.run_all();
  // Both at half speed until 2000; the second then has 2000 left for itself.
  CHECK(bench.ended == std::vector<std::int64_t>{2000, 4000});
}

TEST_CASE("a host's speed divides every time", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 1, 4);
  machine.run(1000, bench.note());
  bench.run_all();
  CHECK(bench.ended == std::vector<std::int64_t>{250});
}

TEST_CASE("a lane does one thing after the other, and begins each in its turn", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 8, 1);
  Lane lane(machine);
  std::vector<std::int64_t> begun;
  for (int i = 0; i < 3; ++i) {
    lane.add([&] {
      begun.push_back(bench.clock.now().since_origin().count());
      return Lane::Work{100, bench.note()};
    });
  }
  bench.run_all();
  CHECK(begun == std::vector<std::int64_t>{0, 100, 200});
  CHECK(bench.ended == std::vector<std::int64_t>{100, 200, 300});
}

TEST_CASE("what continues a turn runs before what waits", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 1, 1);
  Lane lane(machine);
  std::vector<int> order;
  const auto work = [&](int number) {
    return [&order, number] {
      order.push_back(number);
      return Lane::Work{10, [] {}};
    };
  };
  lane.add([&] {
    order.push_back(0);
    return Lane::Work{10, [&] {
                        lane.add_next(work(2));
                        lane.add_next(work(1));
                      }};
  });
  lane.add(work(3));
  bench.run_all();
  CHECK(order == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("a host that has stopped gives its cores to new threads alone", "[lab]") {
  Bench bench;
  HostCores machine(bench.agenda, bench.clock, 1, 1);
  machine.run(1000, bench.note());
  machine.run(1000, bench.note());
  machine.stop();
  machine.run(300, bench.note());
  bench.run_all();
  CHECK(bench.ended == std::vector<std::int64_t>{300});
}

}  // namespace taut::lab
