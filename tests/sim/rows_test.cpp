// Tables by rows in simulated clusters, and what the checker sees of them.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/contract/checker.hpp"
#include "lab/rows/row_model.hpp"
#include "lab/simulated_run.hpp"
#include "tests/support/catch.hpp"

using namespace taut;
using namespace taut::sim;

namespace {

ToyRows table_of(RowTable kept) {
  ToyRows table;
  table.width = 2;
  table.named = 6;
  table.kept = kept;
  return table;
}

/// A history of one bucket's shard and one member, written by hand. The shard is a model, whose
/// table may differ from the checker's.
class RowScript {
 public:
  explicit RowScript(RowTable kept = {}, std::optional<RowTable> at_shard = {})
      : table_(table_of(kept)),
        shard_(table_of(at_shard.value_or(kept)), TableId(1), SliceId(0), 0),
        checker_(job()),
        history_([this](const History& history) { checker_.take(history); }) {
    pb::ServerJob view;
    view.set_revision(1);
    view.add_members()->set_leave_clock(Clock::never().value());
    view.mutable_members(0)->set_incarnation(7);
    view.add_modes()->set_mode(pb::ModeChange::ON_ARRIVAL);
    view.set_slack(1);
    view.set_hold_from(Clock::never().value());
    view.mutable_definition()->set_reduction(pb::Job::SUM);
    history_.add_view(TimePoint(), ShardId(0), view);
    add(Event::Kind::kGreeted);
    add(Event::Kind::kOpened);
    add(Event::Kind::kStep);
  }
  RowScript& push(std::int64_t clock) {
    return push(clock, rows_pushed(table_, TableId(1), WorkerId(0), Clock(clock)));
  }
  RowScript& push(std::int64_t clock, const std::vector<std::uint64_t>& rows) {
    add(Event::Kind::kRequest, pb::DataItem::PUSH, clock, 0, {}, rows);
    add(Event::Kind::kReply, pb::DataItem::ACK, clock, clock + 1);
    return add(Event::Kind::kStep);
  }
  /// The shard applies the update of this clock.
  RowScript& apply(std::int64_t clock) {
    shard_.apply(std::vector<RowModel::Pushed>{{0, clock}}, 1, clock + 1);
    return *this;
  }
  RowScript& read(std::int64_t clock) { return read(clock, shard_.read(shard_.named())); }
  RowScript& read(std::int64_t clock, const std::vector<float>& answer) {
    add(Event::Kind::kRequest, pb::DataItem::READ, clock, 0, {}, shard_.named());
    add(Event::Kind::kReply, pb::DataItem::VALUE, clock, clock, answer);
    return add(Event::Kind::kStep);
  }
  [[nodiscard]] const RowModel& shard() const { return shard_; }
  std::string rule() {
    history_.finish();
    return checker_.broken() ? checker_.broken()->rule : "";
  }

 private:
  [[nodiscard]] ToyJob job() const {
    ToyJob toy;
    toy.tables = toy.slices = 1;
    toy.workers = 1;
    toy.rows = {table_};
    return toy;
  }
  RowScript& add(Event::Kind kind, DataItem::Kind item = pb::DataItem::UNKNOWN,
                 std::int64_t clock = 0, std::int64_t done = 0,
                 const std::vector<float>& values = {},
                 const std::vector<std::uint64_t>& rows = {}) {
    Event event;
    event.kind = kind;
    event.peer = PeerId(1);
    event.incarnation = Incarnation(7);
    event.item = item;
    event.table = TableId(1);
    event.clock = Clock(clock);
    event.version = event.done = Clock(done);
    history_.add(event, values, rows);
    return *this;
  }

  const ToyRows table_;
  RowModel shard_;
  Checker checker_;
  History history_;
};

Outcome run_rows(const Plan& plan) {
  Outcome outcome = sim::run(plan);
  INFO("seed " << plan.seed << " slack " << plan.job.slack.to_string() << " " << outcome.state
               << ": " << outcome.message);
  CHECK(outcome.done);
  if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
  return outcome;
}

void make_rough(LinkFaults& faults) {
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  faults.reorder = true;
  faults.delay_min = Duration(50);
  faults.delay_max = Duration(3000);
}

}  // namespace

TEST_CASE("the checker accepts a shard of rows that keeps the contract", "[sim]") {
  for (const RowTable kept : {RowTable{}, RowTable{.max_rows = 2}, RowTable{.idle_clocks = 1}}) {
    RowScript script(kept);
    for (std::int64_t clock = 0; clock < 6; ++clock) {
      script.read(clock).push(clock).apply(clock);
    }
    CHECK(script.read(6).rule().empty());
  }
}

TEST_CASE("the checker sees an update of rows that is applied twice", "[sim]") {
  RowScript script;
  CHECK(script.push(0).apply(0).apply(0).read(1).rule() == "bits");
}

TEST_CASE("the checker sees that one of a row's updates is missing between others", "[sim]") {
  RowScript script;
  CHECK(script.push(0).apply(0).push(1).push(2).apply(2).read(3).rule() == "bits");
}

TEST_CASE("the checker sees a row with another row's values", "[sim]") {
  RowScript script;
  script.push(0).apply(0).push(1).apply(1);
  std::vector<float> values = script.shard().read(script.shard().named());
  std::swap_ranges(values.begin(), values.begin() + 2, values.begin() + 2);
  CHECK(script.read(2, values).rule() == "bits");
}

TEST_CASE("the checker sees a row that is dropped too early, or too late", "[sim]") {
  // At each clock most of the six rows are updated.
  const auto rule = [](RowTable kept, RowTable at_shard) {
    RowScript script(kept, at_shard);
    for (std::int64_t clock = 0; clock < 6; ++clock)
      script.push(clock).apply(clock).read(clock + 1);
    return script.rule();
  };
  CHECK(rule({.max_rows = 3}, {.max_rows = 3}).empty());
  CHECK(rule({.max_rows = 3}, {.max_rows = 2}) == "bits");
  CHECK(rule({.max_rows = 3}, {.max_rows = 4}) == "bits");
  CHECK(rule({.max_rows = 3}, {}) == "bits");
  CHECK(rule({.idle_clocks = 2}, {.idle_clocks = 2}).empty());
  CHECK(rule({.idle_clocks = 2}, {.idle_clocks = 1}) == "bits");
  CHECK(rule({.idle_clocks = 1}, {.idle_clocks = 2}) == "bits");
}

TEST_CASE("the checker sees a push that names other rows than its program", "[sim]") {
  RowScript script;
  auto rows = rows_pushed(table_of({}), TableId(1), WorkerId(0), Clock(0));
  REQUIRE(!rows.empty());
  rows.pop_back();
  CHECK(script.push(0, rows).rule() == "rows");
}

TEST_CASE("a member names a row of the toy job at most as often as its value can count", "[sim]") {
  for (const std::int64_t clocks : {1, 7, 20, 60, 200}) {
    Random random(static_cast<std::uint64_t>(clocks));
    const ToyRows table = draw_rows(random, clocks).front();
    std::vector<int> named(table.named);
    for (std::int64_t clock = 0; clock < clocks; ++clock) {
      for (const std::uint64_t row : rows_pushed(table, TableId(1), WorkerId(2), Clock(clock))) {
        ++named[row / table.stride];
      }
    }
    CHECK(std::ranges::max(named) <= kMaxNamed);
    CHECK(std::ranges::max(named) > 0);
  }
}

TEST_CASE("tables by rows keep the contract on a rough network in every mode", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2), Slack::unbounded()}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.servers = 2;
      Random random(seed);
      plan.job.rows = draw_rows(random, plan.job.clocks);
      if (seed % 4 > 0) make_rough(plan.faults);
      const Outcome outcome = run_rows(plan);
      CHECK(outcome.reads == 3UL * 20 * plan.job.table_count());
    }
  }
}

TEST_CASE("tables by rows keep the contract when servers are lost", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const Slack slack : {Slack(0), Slack(2)}) {
      Plan plan;
      plan.seed = seed;
      plan.job.slack = slack;
      plan.job.clocks = 80;
      plan.servers = 3;
      plan.replication_interval = 1 + static_cast<std::uint32_t>(seed % 3);
      plan.heartbeat_limit = Duration(400'000);
      plan.heartbeat_interval = Duration(40'000);
      plan.compute_min = Duration(10'000);
      plan.compute_max = Duration(30'000);
      Random random(seed);
      plan.job.rows = draw_rows(random, plan.job.clocks);
      // Once all shards have backups, which takes a while where messages are lost.
      plan.events = {{Duration(1'000'000), Plan::Event::Kind::kKillServer, 1}};
      if (seed % 4 > 0) make_rough(plan.faults);
      run_rows(plan);
    }
  }
}

TEST_CASE("in BSP the rows that are dropped do not depend on how messages are timed", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Plan calm;
    calm.seed = seed;
    calm.job.slack = Slack(0);
    calm.job.clocks = 40;
    calm.servers = 2;
    Random random(seed);
    calm.job.rows = draw_rows(random, calm.job.clocks);
    for (ToyRows& table : calm.job.rows) {
      table.kept.max_rows = 1 + seed % 8;
      table.kept.idle_clocks = static_cast<std::int64_t>(seed % 5);
    }
    const Outcome without = run_rows(calm);
    Plan harmed = calm;
    make_rough(harmed.faults);
    const Outcome with = run_rows(harmed);
    CHECK(with.values_hash == without.values_hash);
    CHECK(with.hash != without.hash);
  }
}
