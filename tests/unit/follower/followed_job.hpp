#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "worker/follower/follower_protocol.hpp"

namespace taut::test {

inline constexpr std::uint64_t kSlice = 4;  // elements

inline FollowerIdentity identity(std::uint64_t number, bool bounded = false,
                                 std::string address = "") {
  return {JobId(7), FollowerId(number), "f" + std::to_string(number), bounded, std::move(address)};
}

/// A shard with a table of three slices, one member, and followers.
class Followed {
 public:
  Followed() : job(1) { begin(); }
  /// The shard, with initial values.
  void begin() {
    shard.emplace(ShardId(0), pool, kSlice);
    (void)shard->set_job(job.view());
    greet(PeerId(1));
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(table);
    say(PeerId(1), requested);
  }
  void greet(PeerId from) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    hello.set_term(job.state.shards(0).term());
    say(from, hello);
  }
  template <class Body>
  std::vector<server::Outgoing> say(PeerId from, const Body& body) {
    DataMessage message{JobId(7), WorkerId(0), Incarnation(100), {}};
    message.body = body;
    return shard->handle(from, message, now);
  }
  /// The member pushes a clock, all slices or one.
  void push(std::int64_t clock, const std::vector<std::uint32_t>& slices = {0, 1, 2}) {
    for (const std::uint32_t slice : slices) {
      DataItem item;
      item.kind = pb::DataItem::PUSH;
      item.slice = SliceId(slice);
      item.clock = Clock(clock);
      item.offset = slice * kSlice;
      item.count = kSlice;
      item.payload = test::frame_of(std::vector<float>(kSlice, -2));  // the rate is 0.5
      for (auto& out : say(PeerId(1), DataItems{{item}})) answers_.push_back(std::move(out));
    }
  }

  FollowerProtocol& add(const FollowerIdentity& who) {
    const auto at = static_cast<std::uint64_t>(followers_.size());
    followers_.push_back(std::make_unique<FollowerProtocol>(who, FollowerTimings{}, pool, kSlice));
    greeted_.emplace_back(100 + at);
    sources_.emplace_back();
    return *followers_.back();
  }
  /// What the coordinator says.
  void tell(std::size_t follower, std::size_t source = SIZE_MAX, bool lingers = false) {
    pb::FollowReply reply;
    reply.set_state(lingers ? pb::DONE : pb::RUNNING);
    reply.set_lingers(lingers);
    reply.set_joined(servers_know_it);
    reply.set_job_hash(job.hash());
    reply.add_shards()->set_address("shard");
    reply.mutable_shards(0)->set_term(job.state.shards(0).term());
    if (source != SIZE_MAX) {
      reply.set_source(source + 1);
      reply.set_source_address("f");
    }
    sources_[follower] = source == SIZE_MAX ? std::nullopt : std::optional(source);
    followers_[follower]->handle(reply, now);
  }
  /// Messages go to and fro until there are none.
  void settle() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t i = 0; i < followers_.size(); ++i) {
        followers_[i]->tick(now);
        (void)followers_[i]->take_connections();
        for (auto& one : followers_[i]->take_outgoing()) {
          moves |= carry(i, one);
        }
      }
      for (server::Outgoing& one : std::exchange(answers_, {})) {
        for (std::size_t i = 0; i < followers_.size(); ++i) {
          if (one.to != greeted_[i]) continue;
          moves = true;
          if (const auto* batch = std::get_if<DataItems>(&one.message.body)) {
            if (drops_values && batch->items.at(0).kind == pb::DataItem::FOLLOW_VALUE) continue;
            for (const DataItem& item : batch->items) from_shard += item.payload.size();
          }
          followers_[i]->handle(ShardId(0), decoded(one.message), now);
        }
      }
    }
  }
  void wait(Duration time) {
    now = now + time;
    settle();
  }
  static DataMessage decoded(const DataMessage& message) {
    auto read = decode_data(encode(message));
    REQUIRE(read.has_value());
    return std::move(read.value());
  }
  static float value_of(const Model& model) {
    const auto floats = model.values[0].floats();
    for (const float one : floats) REQUIRE(one == floats[0]);
    return floats[0];
  }

  test::JobMaker job;
  BufferPool pool;
  std::optional<server::Shard> shard;
  TableSpec table = [] {
    TableSpec spec = test::make_table(0, {12});
    spec.filler = {math::Filler::Kind::kConstant, 0, 0};
    return spec;
  }();
  TimePoint now{std::chrono::hours(1)};
  std::uint64_t from_shard = 0;                     // payload bytes
  std::vector<pb::Follow> reports;                  // of all
  std::uint64_t requested = 0;                      // slices, of the shard
  std::uint64_t parts = 0;                          // messages of values between followers
  bool servers_know_it = true;                      // each follower
  bool drops_values = false;                        // of the shard
  std::uint64_t lost_part = 0;                      // the number of the one that is lost, from 1
  std::vector<bool> silent = std::vector<bool>(8);  // followers that say nothing to others
  std::vector<bool> idle = std::vector<bool>(8);    // that pass nothing on, and say that they live

 private:
  bool carry(std::size_t from, const FollowerProtocol::Outgoing& one) {
    using To = FollowerProtocol::To;
    if (one.to == To::kCoordinator) {
      reports.push_back(std::get<pb::ControlMessage>(one.message).follow());
      return false;
    }
    const DataMessage message = decoded(std::get<DataMessage>(one.message));
    if (one.to == To::kShard) {
      const auto* requests = std::get_if<DataItems>(&message.body);
      if (requests != nullptr) requested += requests->items.size();
      for (auto& answer : shard->handle(greeted_[from], message, now)) {
        answers_.push_back(std::move(answer));
      }
    } else if (one.to == To::kSource) {
      const std::size_t source = sources_[from].value();
      if (!silent[source]) followers_[source]->handle_peer(PeerId(from), message);
    } else if (!silent[from]) {
      const auto* batch = std::get_if<DataItems>(&message.body);
      const bool is_part =
          batch != nullptr && batch->items.at(0).kind == pb::DataItem::FOLLOW_VALUE;
      if (is_part && (idle[from] || ++parts == lost_part)) return true;
      followers_[one.peer.value()]->handle_source(message, now);
    }
    return true;
  }

  std::vector<std::unique_ptr<FollowerProtocol>> followers_;
  std::vector<PeerId> greeted_;
  std::vector<std::optional<std::size_t>> sources_;
  std::vector<server::Outgoing> answers_;
};

}  // namespace taut::test
