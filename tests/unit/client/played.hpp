#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/server/job_maker.hpp"
#include "worker/client/client_protocol.hpp"

namespace taut::test {

inline constexpr Duration kResend{1'000'000};
inline constexpr ShardId kShard{0};

inline std::vector<TableSpec> one_table() {
  return {make_table(0, {4})};
}

/// A client of one shard, which the test plays.
struct Played {
  /// max_kept  of updates for backups; 0: the job has none
  explicit Played(std::vector<TableSpec> tables = one_table(), const Compression& compression = {},
                  Bytes max_kept = Bytes(0), ResendPolicy resend = kResend)
      : client({JobId(7), WorkerId(0), Incarnation(100), "hash", max_kept.value() > 0, max_kept},
               {kShard}, resend) {
    client.open(std::move(tables), compression);
  }
  void handle(decltype(DataMessage::body) body) {
    client.handle(kShard, {JobId(7), {}, {}, std::move(body)}, now);
  }
  void accept_hello() {
    pb::DataHelloReply reply;
    reply.set_accepted(true);
    handle(reply);
  }
  void accept_open() {
    pb::OpenTablesReply reply;
    reply.set_accepted(true);
    handle(reply);
  }
  void start() {
    take();
    accept_hello();
    take();
    accept_open();
    REQUIRE(client.ready());
  }
  void greet_again() {
    pb::DataHelloReply reply;
    reply.set_greet_again(true);
    handle(reply);
  }
  std::vector<DataMessage> take() {
    std::vector<DataMessage> messages;
    for (auto& [to, message] : client.take_outgoing(now)) messages.push_back(std::move(message));
    return messages;
  }
  std::vector<DataItem> take_items() {
    std::vector<DataItem> items;
    for (DataMessage& message : take()) {
      REQUIRE(std::holds_alternative<DataItems>(message.body));
      for (DataItem& item : std::get<DataItems>(message.body).items) items.push_back(item);
    }
    return items;
  }
  /// The kinds and clocks of what is sent now, e.g. "PUSH 3, READ 4".
  std::string sent() {
    std::string text;
    for (const DataItem& item : take_items()) {
      if (!text.empty()) text += ", ";
      text += pb::DataItem::Kind_Name(item.kind) + " " + std::to_string(item.clock.value());
    }
    return text;
  }
  void pass(Duration time) {
    now = now + time;
    client.tick(now);
  }
  void push(std::int64_t clock) {
    client.push(TableId(0), {Clock(clock), frame_of(gradient_of(0, clock, 4)), 0});
  }
  void read(std::int64_t clock) { client.read(TableId(0), Clock(clock), into); }
  void answer(DataItem::Kind kind, std::int64_t clock, std::int64_t done, std::int64_t version = 0,
              float value = 1) {
    DataItem item;
    item.kind = kind;
    item.clock = Clock(clock);
    item.done = Clock(done);
    item.version = Clock(version);
    if (kind == pb::DataItem::VALUE || kind == pb::DataItem::SNAPSHOT_VALUE) {
      item.payload = frame_of(std::vector<float>(4, value));
    }
    handle(DataItems{{item}});
  }
  void refuse(DataItem::Refusal why, std::int64_t clock, std::int64_t done = 0) {
    DataItem item;
    item.kind = pb::DataItem::REFUSED;
    item.clock = Clock(clock);
    item.done = Clock(done);
    item.refusal = why;
    item.reason = "the reason";
    handle(DataItems{{item}});
  }

  std::vector<float> into = std::vector<float>(4, -1.0F);
  TimePoint now;
  ClientProtocol client;
};

}  // namespace taut::test
