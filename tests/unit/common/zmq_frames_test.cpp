// What a socket of ZeroMQ does with the frames of one message.
#include "common/net/zmq/zmq_frames.hpp"

#include <cstddef>
#include <string>

#include "tests/support/catch.hpp"

namespace taut {
namespace {

zmq::socket_t listener(zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvtimeo, 5000);
  socket.bind("tcp://127.0.0.1:*");
  return socket;
}

}  // namespace

TEST_CASE("a message whose connection ends between two frames is dropped whole, and no other",
          "[endpoint]") {
  zmq::context_t context(1);
  zmq::socket_t older = listener(context);
  zmq::socket_t newer = listener(context);
  const std::string place = older.get(zmq::sockopt::last_endpoint);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(place);
  const auto ends_at_second = [&](std::size_t i) {
    if (i == 1) socket.disconnect(place);
    return zmq::message_t(std::string("lost"));
  };
  // Whether the socket knows of the end at once depends on the machine: what arrives does not.
  (void)send_whole(socket, 4, false, ends_at_second);
  CHECK_FALSE(send_whole(socket, 2, false,
                         [](std::size_t) { return zmq::message_t(std::string("none")); }));
  socket.connect(newer.get(zmq::sockopt::last_endpoint));
  const auto number = [](std::size_t i) { return zmq::message_t(std::to_string(i)); };
  REQUIRE(send_whole(socket, 3, false, number));
  for (std::size_t i = 0; i < 3; ++i) {
    zmq::message_t frame;
    REQUIRE(newer.recv(frame));
    CHECK(frame.to_string() == std::to_string(i));
    CHECK(frame.more() == (i < 2));
  }
  zmq::message_t none;
  CHECK_FALSE(older.recv(none, zmq::recv_flags::dontwait));
}

}  // namespace taut
