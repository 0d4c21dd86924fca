#include <random>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::same_bits;

/// Real shards and clients with a seeded network between them that loses, repeats and reorders
/// everything, and breaks connections.
class Storm {
 public:
  Storm(JobMaker maker, std::size_t workers, std::uint64_t seed)
      : random_(seed), job_(std::move(maker)) {
    tables_ = {test::make_table(0, {6}), test::make_table(1, {4}), test::make_table(2, {5})};
    const auto view = job_.view();
    for (const ShardId id : view->shards) {
      shards_.push_back(std::make_unique<server::Shard>(id, pool_));
      deliver(shards_.size() - 1, shards_.back()->set_job(view));
    }
    for (std::size_t w = 0; w < workers; ++w) {
      const WorkerId id(static_cast<std::uint32_t>(w));
      auto client = std::make_unique<ClientProtocol>(
          ClientIdentity{JobId(7), id, job_.incarnation(id), job_.hash()}, view->shards,
          Duration(20'000));
      client->open(tables_);
      workers_.push_back({std::move(client), {}, Clock(0), 0});
      for (const TableSpec& table : tables_) workers_.back().values.emplace_back(table.count());
    }
  }

  /// Every worker trains until `end`. Returns whether all came there.
  bool run(Clock end) {
    for (Worker& worker : workers_) read_all(worker);
    for (int step = 0; step < 200'000; ++step) {
      now_ = now_ + Duration(1'000);
      if (random_() % 200 == 0) ++generation_;  // every connection breaks
      bool over = true;
      for (std::size_t w = 0; w < workers_.size(); ++w) over &= advance(w, end);
      if (over) return true;
      deliver_some();
    }
    return false;
  }

  [[nodiscard]] std::vector<float> table(std::size_t index) {
    for (const auto& shard : shards_) {
      DataMessage hello{JobId(7), {}, {}, greeting()};
      static_cast<void>(shard->handle(PeerId(1), hello, TimePoint()));
      DataItem item;
      item.kind = pb::DataItem::SNAPSHOT;
      item.table = tables_[index].id;
      const auto out = shard->handle(PeerId(1), {JobId(7), {}, {}, DataItems{{item}}}, TimePoint());
      const DataItem answer = std::get<DataItems>(out.at(0).message.body).items.at(0);
      if (answer.kind == pb::DataItem::SNAPSHOT_VALUE) return test::floats_of(answer.payload);
    }
    return {};
  }
  [[nodiscard]] std::int64_t max_staleness() const { return max_staleness_; }
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  std::string failure;

 private:
  struct Worker {
    std::unique_ptr<ClientProtocol> client;
    std::vector<std::vector<float>> values;
    Clock clock;
    std::size_t arrived = 0;  // tables of this clock
  };
  struct Packet {
    std::size_t shard;
    std::size_t worker;
    std::uint64_t generation;
    bool to_shard;
    DataMessage message;
  };

  pb::DataHello greeting() {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job_.hash());
    return hello;
  }
  void read_all(Worker& worker) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      worker.client->read(tables_[t].id, worker.clock, worker.values[t]);
    }
  }
  bool advance(std::size_t w, Clock end) {
    Worker& worker = workers_[w];
    worker.client->tick(now_);
    for (const CompletedRead& read : worker.client->take_completed()) {
      max_staleness_ = std::max(max_staleness_, read.clock - read.version);
      ++worker.arrived;
    }
    if (worker.arrived == tables_.size() && worker.clock < end && random_() % 4 != 0) {
      worker.arrived = 0;
      for (std::size_t t = 0; t < tables_.size(); ++t) {
        worker.client->read(tables_[t].id, worker.clock.next(), worker.values[t]);
        const auto gradient = test::gradient_of(static_cast<std::uint32_t>(w), worker.clock.value(),
                                                tables_[t].count(), t);
        worker.client->push(tables_[t].id, {worker.clock, test::frame_of(gradient), 0});
      }
      worker.clock = worker.clock.next();
    }
    for (auto& [to, message] : worker.client->take_outgoing(now_)) {
      toss({to.value(), w, generation_, true, std::move(message)});
    }
    if (worker.client->failure()) failure = worker.client->failure()->message;
    return (worker.clock == end && worker.client->unacknowledged() == 0) || !failure.empty();
  }
  void toss(const Packet& packet) {
    if (random_() % 10 == 0) return;
    air_.push_back(packet);
    if (random_() % 10 == 0) air_.push_back(packet);
  }
  void deliver(std::size_t shard, const std::vector<server::Outgoing>& out) {
    for (const server::Outgoing& one : out) {
      const std::uint64_t peer = one.to.value();
      toss({shard, peer % 16, peer / 16 - 1, false, one.message});
    }
  }
  void deliver_some() {
    for (std::size_t i = 0; i < 4 && !air_.empty(); ++i) {
      const std::size_t which = random_() % air_.size();
      const Packet packet = air_[which];
      air_.erase(air_.begin() + static_cast<std::ptrdiff_t>(which));
      // What was in flight is lost with its connection.
      if (packet.generation != generation_) continue;
      if (packet.to_shard) {
        const PeerId from((packet.generation + 1) * 16 + packet.worker);
        deliver(packet.shard, shards_[packet.shard]->handle(from, packet.message, now_));
      } else {
        workers_[packet.worker].client->handle(ShardId(static_cast<std::uint32_t>(packet.shard)),
                                               packet.message, now_);
      }
    }
  }

  std::mt19937_64 random_;
  JobMaker job_;
  std::vector<TableSpec> tables_;
  BufferPool pool_;
  std::vector<std::unique_ptr<server::Shard>> shards_;
  std::vector<Worker> workers_;
  std::vector<Packet> air_;
  std::uint64_t generation_ = 0;
  TimePoint now_;
  std::int64_t max_staleness_ = 0;
};

}  // namespace

TEST_CASE("lost, repeated or reordered messages are sent again and applied exactly once",
          "[client]") {
  const auto seed = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  CAPTURE(seed);
  constexpr Clock kEnd{40};
  Storm storm(JobMaker(3, Slack(0), 2), 3, seed);
  REQUIRE(storm.run(kEnd));
  REQUIRE(storm.failure.empty());
  // The same sums with nothing between: one slice, nothing lost.
  for (std::size_t t = 0; t < storm.tables().size(); ++t) {
    JobMaker quiet(3);
    const auto view = quiet.view();
    BufferPool pool;
    const TableSpec& table = storm.tables()[t];
    server::SliceState slice(table, {table.id, SliceId(0), 0, table.count(), ShardId(0)}, *view,
                             pool, PushSchedule{});
    std::vector<server::Answer> released;
    for (std::int64_t clock = 0; clock < kEnd.value(); ++clock) {
      for (std::uint32_t w = 0; w < 3; ++w) {
        const auto gradient = test::gradient_of(w, clock, table.count(), t);
        slice.push(WorkerId(w), {Clock(clock), test::frame_of(gradient), 0}, *view, released);
      }
    }
    CHECK(same_bits(storm.table(t), test::floats_of(slice.snapshot(PeerId(1)).values)));
  }
}

TEST_CASE("no read is staler than the slack, under all message faults", "[client]") {
  const auto slack = GENERATE(std::int64_t{0}, std::int64_t{1}, std::int64_t{3});
  CAPTURE(slack);
  Storm storm(JobMaker(3, Slack(slack), 2), 3, 17);
  REQUIRE(storm.run(Clock(40)));
  CHECK(storm.failure.empty());
  CHECK(storm.max_staleness() <= slack);
}

}  // namespace taut
