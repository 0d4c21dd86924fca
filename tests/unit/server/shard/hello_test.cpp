#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "proto/wire_version.hpp"
#include "tests/unit/server/shard/talk.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;
using test::Talk;

}  // namespace

TEST_CASE("a hello of another wire version is refused with both sides' versions and builds",
          "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion + 1);
  hello.set_build("another build");
  hello.set_job_hash(talk.job.hash());
  const auto reply = talk.say_hello(kPeer, hello);
  CHECK_FALSE(reply.accepted());
  CHECK_FALSE(reply.greet_again());
  CHECK_THAT(reply.reason(), Contains(fmt::format("wire version {}", kWireVersion)) &&
                                 Contains(fmt::format("wire version {}", kWireVersion + 1)) &&
                                 Contains(build_name()) && Contains("another build"));
}

TEST_CASE("a hello of another job's definition is refused with both hashes", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(std::string(64, 'e'));
  const auto reply = talk.say_hello(kPeer, hello);
  CHECK_FALSE(reply.accepted());
  CHECK(reply.job_hash() == talk.job.hash());
  CHECK_THAT(reply.reason(), Contains(talk.job.hash().substr(0, 12)) && Contains("eeeeeeeeeeee"));
}

TEST_CASE("the refusal of a hello whose job hash is no text can be read", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash("\xff\xfe\xc0 no hash at all");
  CHECK_FALSE(talk.say_hello(kPeer, hello).accepted());
}

TEST_CASE("a hello for a job that the shard does not know names the job", "[shard]") {
  Talk talk(JobMaker(1));
  talk.job.state.set_finished(true);
  talk.change();
  const auto reply = talk.hello();
  CHECK_FALSE(reply.accepted());
  CHECK_THAT(reply.reason(), Contains("job 7"));
}

TEST_CASE("every new connection must send a hello before anything is served", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start(PeerId(1));
  const auto out = talk.send(PeerId(2), 0, {Talk::push(0, 0)});
  const auto reply = Talk::only<pb::DataHelloReply>(out, PeerId(2));
  CHECK_FALSE(reply.accepted());
  CHECK(reply.greet_again());
  DataMessage opening = talk.envelope(0);
  opening.body = pb::OpenTables();
  CHECK(
      Talk::only<pb::DataHelloReply>(talk.shard.handle(PeerId(2), opening, TimePoint()), PeerId(2))
          .greet_again());
  // Nothing of it was applied.
  CHECK(talk.ask(0, Talk::push(0, 0), PeerId(1)).kind == pb::DataItem::ACK);
  REQUIRE(talk.hello(PeerId(2)).accepted());
  CHECK(talk.ask(0, Talk::push(0, 1), PeerId(2)).done == Clock(2));
}

TEST_CASE("a refused hello opens nothing", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash("other");
  CHECK_FALSE(talk.say_hello(kPeer, hello).accepted());
  const auto out = talk.send(kPeer, 0, {Talk::push(0, 0)});
  CHECK(Talk::only<pb::DataHelloReply>(out, kPeer).greet_again());
}

TEST_CASE("however many readers greet, a worker need not greet again", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(talk.job.hash());
  DataMessage message = talk.envelope(1);
  message.body = hello;
  for (std::uint64_t peer = 1000; peer < 1000 + 66'000; ++peer) {
    (void)talk.shard.handle(PeerId(peer), message, TimePoint());
  }
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0)).kind == pb::DataItem::VALUE);
  // The newest reader is known, the first ones no longer are.
  CHECK(talk.ask(1, Talk::item(pb::DataItem::SNAPSHOT, 0), PeerId(66'999)).kind ==
        pb::DataItem::SNAPSHOT_VALUE);
  message.body = DataItems{{Talk::item(pb::DataItem::SNAPSHOT, 0)}};
  const auto out = talk.shard.handle(PeerId(1000), message, TimePoint());
  CHECK(Talk::only<pb::DataHelloReply>(out, PeerId(1000)).greet_again());
}

}  // namespace taut::server
