#include <random>
#include <string>

#include "proto/control_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

pb::ControlMessage sample() {
  pb::ControlMessage message;
  message.set_request(17);
  message.mutable_submit()->mutable_definition()->set_name("job");
  message.mutable_submit()->set_token(99);
  return message;
}

Message one_frame(std::string_view bytes) {
  Message message;
  message.frames.push_back(Frame::copy_of(bytes));
  return message;
}

std::string bytes_of(const pb::ControlMessage& message) {
  return std::string(encode(message).frames.at(0).text());
}

}  // namespace

TEST_CASE("a control message survives the way through bytes", "[proto]") {
  const auto decoded = decode_control(encode(sample()));
  REQUIRE(decoded.has_value());
  CHECK(decoded.value().SerializeAsString() == sample().SerializeAsString());
}

TEST_CASE("the prefix is TAUT, the plane, zero and the little-endian wire version", "[proto]") {
  const std::string bytes = bytes_of(sample());
  CHECK(bytes.substr(0, kPrefixBytes) == std::string("TAUTC\0\20\0", 8));
  CHECK(read_prefix(Plane::kControl, Frame::copy_of(bytes)).value() == kWireVersion);
  CHECK_THAT(read_prefix(Plane::kData, Frame::copy_of(bytes)).error().message,
             Contains("right port"));
}

TEST_CASE("a truncated control message is refused at every length", "[proto]") {
  const std::string whole = bytes_of(sample());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto decoded = decode_control(one_frame(whole.substr(0, length)));
    // Protobuf reads a prefix that ends between two fields; what it lacks is then its body.
    CHECK_FALSE(decoded.has_value());
  }
}

TEST_CASE("random bytes never decode to more than a protobuf, and never abort", "[proto]") {
  const std::uint64_t seed = 20240607;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::string prefix;
  append_prefix(Plane::kControl, prefix);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (!decode_control(one_frame(prefix + bytes))) ++refused;
    CHECK_FALSE(decode_control(one_frame(bytes)).has_value());
  }
  CHECK(refused > 19000);
}

TEST_CASE("a control message has exactly one frame and a limited size", "[proto]") {
  CHECK_FALSE(decode_control(Message()).has_value());
  Message two = encode(sample());
  two.frames.push_back(Frame::copy_of("more"));
  CHECK_THAT(decode_control(two).error().message, Contains("2 frames"));
  pb::ControlMessage large = sample();
  large.mutable_submit()->mutable_definition()->set_name(std::string(17U << 20U, 'x'));
  CHECK_THAT(decode_control(encode(large)).error().message, Contains("limit"));
}

TEST_CASE("of another wire version only hello and its reply are read", "[proto]") {
  const auto with_version = [](const pb::ControlMessage& message, char version) {
    std::string bytes = bytes_of(message);
    bytes[6] = version;
    return one_frame(bytes);
  };
  const auto refused = decode_control(with_version(sample(), kWireVersion + 1));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message, Contains("version " + std::to_string(kWireVersion + 1)) &&
                                          Contains("has " + std::to_string(kWireVersion)));
  pb::ControlMessage hello;
  hello.mutable_hello()->set_wire_version(kWireVersion + 1);
  CHECK(decode_control(with_version(hello, kWireVersion + 1)).value().hello().wire_version() ==
        kWireVersion + 1);
  hello.mutable_hello_reply()->set_wire_version(kWireVersion + 1);
  CHECK(decode_control(with_version(hello, kWireVersion + 1)).has_value());
}

}  // namespace taut
