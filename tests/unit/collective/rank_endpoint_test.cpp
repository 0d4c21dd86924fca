// What a rank's port takes of the ranks that may send to it.
#include "worker/collective/rank_endpoint.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "tests/support/catch.hpp"
#include "worker/collective/all_reduce_group.hpp"

namespace taut::collective {
namespace {

constexpr Duration kLong{10'000'000};

Message words(const std::string& text) {
  return Message{{Frame::copy_of(text)}};
}

/// Frames of as many bytes as a group's message has at most.
Message values(std::size_t frames) {
  Message message;
  const Frame frame = Frame::copy_of(std::string(GroupOptions::kMaxMessage.value(), 'x'));
  for (std::size_t i = 0; i < frames; ++i) message.frames.push_back(frame);
  return message;
}

/// Another rank, which has greeted.
struct Sender {
  Sender(ZmqContext& context, RankEndpoint& rank)
      : endpoint(context.make_endpoint()), to(endpoint->connect(rank.place.address()).value()) {
    REQUIRE(endpoint->send(to, words("hello")));
    REQUIRE(rank.endpoint->receive(kLong));
  }
  std::unique_ptr<Endpoint> endpoint;
  PeerId to;
};

}  // namespace

TEST_CASE("a rank takes all that another may have under way, however late it looks",
          "[collective]") {
  const RankBoard board;
  RankEndpoint rank = listen_as_rank("127.0.0.1:0", false, board).value();
  ZmqContext context(Security::insecure());
  const Sender sender(context, rank);
  constexpr std::size_t kMessages =
      GroupOptions::kMaxWindow.value() / GroupOptions::kMaxMessage.value();
  for (std::size_t i = 0; i < kMessages; ++i) REQUIRE(sender.endpoint->send(sender.to, values(1)));
  // The connection is looked at meanwhile, several times.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (std::size_t i = 0; i < kMessages; ++i) {
    CAPTURE(i);
    REQUIRE(rank.endpoint->receive(kLong));
  }
}

TEST_CASE("a rank takes no more of another than that may have under way", "[collective]") {
  const RankBoard board;
  RankEndpoint rank = listen_as_rank("127.0.0.1:0", false, board).value();
  ZmqContext context(Security::insecure());
  const Sender hostile(context, rank);
  const Sender other(context, rank);
  REQUIRE(hostile.endpoint->send(hostile.to, values(40)));
  CHECK_FALSE(rank.endpoint->receive(Duration(1'000'000)));
  REQUIRE(other.endpoint->send(other.to, words("still here")));
  const auto got = rank.endpoint->receive(kLong);
  REQUIRE(got);
  CHECK(got->message.frames.at(0).text() == "still here");
}

}  // namespace taut::collective
