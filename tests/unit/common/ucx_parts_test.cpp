// The parts of a message over UCX: its head with small frames, and large frames apart.
#include "common/net/ucx/ucx_parts.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tests/support/catch.hpp"

using namespace taut;

namespace {

constexpr std::size_t kFrames = 8;
constexpr std::uint64_t kFrame = 1 << 20;

Message mixed() {
  Message message;
  for (const std::size_t size : {3UL, 40'000UL, 0UL, 16'384UL, 16'383UL}) {
    message.frames.push_back(Frame::copy_of(std::string(size, static_cast<char>('a' + size % 7))));
  }
  return message;
}

const UcxPart kHead{.kind = UcxPartKind::kMessage, .frames = 5, .separate = 2};

bool is_mixed(const Message& message) {
  const Message right = mixed();
  if (message.frames.size() != right.frames.size()) return false;
  for (std::size_t i = 0; i < right.frames.size(); ++i) {
    if (message.frames[i].text() != right.frames[i].text()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a UCX part's header is read as it was written, and nothing else is", "[ucx]") {
  const UcxPart part{UcxPartKind::kFrame, 1, 2, 3, 4};
  const std::string secret = "secret";
  auto bytes = part.with(std::as_bytes(std::span(secret)));
  const auto read = read_ucx_part(bytes);
  REQUIRE(read);
  CHECK(read->part.kind == UcxPartKind::kFrame);
  CHECK(read->part.frames == 1);
  CHECK(read->part.separate == 2);
  CHECK(read->part.connection == 3);
  CHECK(read->part.sequence == 4);
  CHECK(read->secret.size() == secret.size());
  CHECK_FALSE(read_ucx_part(std::span(bytes).first(31)));
  bytes[4] = std::byte{6};
  CHECK_FALSE(read_ucx_part(bytes));
  bytes[4] = std::byte{5};
  bytes[3] = std::byte{'2'};  // another version
  CHECK_FALSE(read_ucx_part(bytes));
}

TEST_CASE("the parts of a UCX message make it whole in any order", "[ucx]") {
  BufferPool pool;
  const Message message = mixed();
  constexpr std::uint32_t kTheHead = 0xFFFF;
  const std::uint32_t orders[][3] = {{kTheHead, 1, 3}, {1, kTheHead, 3}, {3, 1, kTheHead}};
  for (const auto& order : orders) {
    UcxAssembly assembly;
    for (const std::uint32_t which : order) {
      CHECK_FALSE(assembly.is_complete());
      if (which == kTheHead) {
        REQUIRE(assembly.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
      } else {
        REQUIRE(assembly.take_frame(which, message.frames[which]));
      }
    }
    REQUIRE(assembly.is_complete());
    CHECK(is_mixed(assembly.take()));
  }
}

TEST_CASE("parts of a UCX message that do not fit each other are refused", "[ucx]") {
  BufferPool pool;
  const Message message = mixed();
  const auto refuses_head = [&](UcxPart head, std::size_t cut) {
    UcxAssembly assembly;
    const Buffer whole = ucx_body(message, pool);
    const Buffer body = pool.acquire(whole.size() - cut);
    std::copy_n(whole.data(), body.size(), body.data());
    return !assembly.take_body(head, body, kFrames, kFrame);
  };
  CHECK_FALSE(refuses_head(kHead, 0));
  CHECK(refuses_head(kHead, 1));
  CHECK(refuses_head(kHead, 16'400));
  for (const auto& [frames, separate] : {std::pair{0U, 0U}, {5U, 1U}, {5U, 6U}, {4U, 2U}}) {
    CHECK(refuses_head({.kind = UcxPartKind::kMessage, .frames = frames, .separate = separate}, 0));
  }
  UcxAssembly small_limit;
  CHECK_FALSE(small_limit.take_body(kHead, ucx_body(message, pool), kFrames, 39'999));
  UcxAssembly assembly;
  REQUIRE(assembly.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
  CHECK_FALSE(assembly.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
  CHECK_FALSE(assembly.take_frame(0, message.frames[0]));  // a small one
  CHECK_FALSE(assembly.take_frame(3, message.frames[1]));  // of another size
  CHECK_FALSE(assembly.take_frame(9, message.frames[1]));
  REQUIRE(assembly.take_frame(1, message.frames[1]));
  CHECK_FALSE(assembly.take_frame(1, message.frames[1]));
  UcxAssembly early;
  REQUIRE(early.take_frame(1, message.frames[3]));
  CHECK_FALSE(early.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
}

TEST_CASE("a UCX message of too many frames is complete without them", "[ucx]") {
  BufferPool pool;
  const Message message = mixed();
  UcxAssembly assembly;
  REQUIRE(assembly.take_body(kHead, ucx_body(message, pool), 4, kFrame));
  CHECK_FALSE(assembly.is_complete());
  REQUIRE(assembly.take_frame(1, message.frames[1]));
  REQUIRE(assembly.take_frame(3, message.frames[3]));
  CHECK(assembly.is_complete());
  CHECK(assembly.is_dropped());
}

TEST_CASE("a UCX message of too many bytes in all is refused, whatever arrives first", "[ucx]") {
  BufferPool pool;
  const Message message = mixed();
  constexpr std::uint64_t kBytes = 3 + 40'000 + 16'384 + 16'383;
  UcxAssembly fits(kBytes);
  CHECK(fits.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
  UcxAssembly larger(kBytes - 1);
  CHECK_FALSE(larger.take_body(kHead, ucx_body(message, pool), kFrames, kFrame));
  UcxAssembly headless(40'000 + 16'383);
  CHECK(headless.take_frame(1, message.frames[1]));
  CHECK_FALSE(headless.take_frame(3, message.frames[3]));
}
