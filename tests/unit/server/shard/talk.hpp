#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::test {

/// A shard with one job, and peers that speak to it.
struct Talk {
  explicit Talk(JobMaker maker, std::vector<TableSpec> list = {make_table(0, {4})},
                ShardId id = ShardId(0))
      : job(std::move(maker)), tables(std::move(list)), shard(id, pool) {
    change();
  }

  std::vector<server::Outgoing> change() { return shard.set_job(job.view()); }

  DataMessage envelope(std::uint32_t worker) {
    const bool member = worker < static_cast<std::uint32_t>(job.state.members_size());
    return {JobId(7),
            WorkerId(worker),
            member ? job.incarnation(WorkerId(worker)) : Incarnation(999),
            {}};
  }
  pb::DataHelloReply hello(PeerId from = kPeer) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_build("a test");
    hello.set_role("worker");
    hello.set_job_hash(job.hash());
    return say_hello(from, hello);
  }
  pb::DataHelloReply say_hello(PeerId from, const pb::DataHello& hello) {
    DataMessage message = envelope(0);
    message.body = hello;
    return only<pb::DataHelloReply>(shard.handle(from, message, TimePoint()), from);
  }
  pb::OpenTablesReply open(PeerId from = kPeer) { return open(from, tables); }
  pb::OpenTablesReply open(PeerId from, const std::vector<TableSpec>& named) {
    pb::OpenTables requested;
    for (const TableSpec& table : named) *requested.add_tables() = to_wire(table);
    return open(from, requested);
  }
  pb::OpenTablesReply open(PeerId from, const pb::OpenTables& requested) {
    return only<pb::OpenTablesReply>(send_opening(from, requested), from);
  }
  std::vector<server::Outgoing> send_opening(PeerId from, const pb::OpenTables& requested) {
    DataMessage message = envelope(0);
    message.body = requested;
    return shard.handle(from, message, TimePoint());
  }
  std::vector<server::Outgoing> open_by_hash(PeerId from) {
    pb::OpenTables requested;
    requested.set_tables_hash(tables_hash(tables));
    return send_opening(from, requested);
  }
  void start(PeerId from = kPeer) {
    REQUIRE(hello(from).accepted());
    REQUIRE(open(from).accepted());
  }

  std::vector<server::Outgoing> send(PeerId from, std::uint32_t worker,
                                     std::vector<DataItem> items) {
    DataMessage message = envelope(worker);
    message.body = DataItems{std::move(items)};
    return shard.handle(from, std::move(message), TimePoint());
  }
  /// The one answer to one item.
  DataItem ask(std::uint32_t worker, const DataItem& item, PeerId from = kPeer) {
    const auto out = send(from, worker, {item});
    const auto batch = only<DataItems>(out, from);
    REQUIRE(batch.items.size() == 1);
    return batch.items[0];
  }
  static DataItem item(DataItem::Kind kind, std::int64_t clock, std::uint32_t table = 0,
                       std::uint32_t slice = 0) {
    DataItem item;
    item.kind = kind;
    item.table = TableId(table);
    item.slice = SliceId(slice);
    item.clock = Clock(clock);
    return item;
  }
  static DataItem push(std::uint32_t worker, std::int64_t clock,
                       DataItem::Kind kind = pb::DataItem::PUSH) {
    DataItem pushed = item(kind, clock);
    pushed.count = 4;
    pushed.payload = frame_of(gradient_of(worker, clock, 4));
    return pushed;
  }
  std::vector<float> values() {
    const DataItem answer = ask(0, item(pb::DataItem::SNAPSHOT, 0));
    REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
    return floats_of(answer.payload);
  }

  template <class Body>
  static Body only(const std::vector<server::Outgoing>& out, PeerId to) {
    REQUIRE(out.size() == 1);
    REQUIRE(out[0].to == to);
    // What a shard says must survive the way through bytes.
    auto message = decode_data(encode(out[0].message));
    REQUIRE(message.has_value());
    REQUIRE(std::holds_alternative<Body>(message.value().body));
    return std::get<Body>(message.value().body);
  }

  JobMaker job;
  std::vector<TableSpec> tables;
  BufferPool pool;
  server::Shard shard;
};

}  // namespace taut::test
