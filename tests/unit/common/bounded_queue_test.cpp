#include "common/bounded_queue.hpp"

#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("a full queue refuses, and the offered item is kept", "[queue]") {
  BoundedQueue<std::string> queue(1);
  REQUIRE(queue.push("a", Duration(0)));
  std::string b = "b";
  const bool is_pushed = queue.push(std::move(b), Duration(1000));
  CHECK_FALSE(is_pushed);
  CHECK(b == "b");  // NOLINT(bugprone-use-after-move): nothing was moved
}

TEST_CASE("a closed queue is drained and then ends", "[queue]") {
  BoundedQueue<int> queue(4);
  REQUIRE(queue.push(1, Duration(0)));
  queue.close();
  CHECK_FALSE(queue.push(2, Duration(0)));
  CHECK(queue.pop(Duration(0)) == 1);
  CHECK_FALSE(queue.pop(Duration(5'000'000)));
}

TEST_CASE("everything that several producers push is popped once", "[queue]") {
  BoundedQueue<int> queue(8);
  std::vector<std::thread> producers;
  producers.reserve(3);
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < 1000; ++i) {
        if (!queue.push(p * 1000 + i, Duration(10'000'000))) return;
      }
    });
  }
  std::vector<bool> seen(3000, false);
  for (int i = 0; i < 3000; ++i) {
    const auto item = queue.pop(Duration(10'000'000));
    REQUIRE(item);
    CHECK_FALSE(seen[static_cast<std::size_t>(*item)]);
    seen[static_cast<std::size_t>(*item)] = true;
  }
  for (std::thread& producer : producers) producer.join();
}
