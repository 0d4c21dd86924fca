#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collective/threaded_group.hpp"

using namespace taut;
using namespace taut::collective;
using namespace taut::test;

namespace {

constexpr std::uint64_t kPairElements = 5000;

/// Two ranks that may exchange with each other alone.
std::vector<GroupOptions> options_of_pair(const ThreadedGroup& group) {
  std::vector<GroupOptions> options = all_alike(group, Algorithm::kRing);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    add_send(options[rank].exchange, Phase::kFinal, 1 - rank, {0, 1});
    add_receive(options[rank].exchange, Phase::kFinal, 1 - rank, {0, 1});
    options[rank].pair_elements = kPairElements;
    options[rank].acquire = [](std::size_t bytes) { return BufferPool().acquire(bytes); };
    options[rank].silence_limit = std::chrono::seconds(2);
  }
  return options;
}

Result<void> poll_for_ever(AllReduceGroup& group) {
  while (true) {
    TAUT_TRY(group.poll());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("a rank answers an exchange of two with its own values, and has the other's",
          "[collective][group]") {
  ThreadedGroup threads(2);
  const bool shares_memory = GENERATE(false, true);
  auto options = options_of_pair(threads);
  if (shares_memory) {
    for (GroupOptions& one : options) one.shared_memory = SharedArena::create().value();
  }
  std::vector<std::vector<float>> received(2);
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        for (std::uint64_t i = 0; i < 5; ++i) {
          if (rank == 0) {
            const Buffer values = pool.acquire(2 * kPairElements * sizeof(float));
            fill(values, rank, i);
            TAUT_TRY(const auto pair, group.begin_pair(Rank(1), values));
            TAUT_TRY(group.wait(pair));
            const auto theirs = values.floats().subspan(kPairElements);
            received[0].assign(theirs.begin(), theirs.end());
            continue;
          }
          auto request = group.take_request();
          while (!request) {
            TAUT_TRY(group.poll());
            request = group.take_request();
          }
          const Buffer values = pool.acquire(kPairElements * sizeof(float));
          fill(values, rank, i);
          group.answer(*request, values);
          const auto theirs = request->values.floats();
          received[1].assign(theirs.begin(), theirs.end());
          TAUT_TRY(group.wait_until_free(values));
        }
        return ok();
      });
  CHECK(errors == std::vector<std::string>(2));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Buffer expected =
        BufferPool().acquire((rank == 0 ? 1 : 2) * kPairElements * sizeof(float));
    fill(expected, 1 - rank, 4);
    CHECK(std::ranges::equal(received[rank], expected.floats().first(kPairElements)));
  }
}

TEST_CASE("an exchange of two of another size, or before an answer, ends the group",
          "[collective][group]") {
  ThreadedGroup threads(2);
  auto options = options_of_pair(threads);
  const bool is_larger = GENERATE(false, true);
  if (is_larger) options[1].pair_elements = kPairElements + 2;
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        if (rank == 1) return poll_for_ever(group);
        const Buffer values = pool.acquire(2 * kPairElements * sizeof(float));
        TAUT_TRY(const auto first, group.begin_pair(Rank(1), values));
        if (!is_larger) {
          TAUT_TRY(const auto second, group.begin_pair(Rank(1), values));
          return group.wait(second);
        }
        return group.wait(first);
      });
  CHECK_THAT(errors[0], Catch::Contains("has not sent elements"));
  CHECK_THAT(errors[1],
             Catch::Contains(is_larger ? "began an exchange of 5000 elements, and this rank "
                                         "answers with 5002"
                                       : "began another exchange before it had an answer"));
}

TEST_CASE("an exchange of two that a rank cannot answer ends the group, not the process",
          "[collective][group]") {
  ThreadedGroup threads(3);
  // In a ring rank 0 sends to rank 1, and rank 1 to rank 2 alone.
  std::vector<GroupOptions> options = all_alike(threads, Algorithm::kRing);
  for (GroupOptions& one : options) {
    one.pair_elements = kPairElements;
    one.acquire = [](std::size_t bytes) { return BufferPool().acquire(bytes); };
    one.silence_limit = std::chrono::seconds(2);
  }
  const auto errors = threads.run(
      options, [&](std::uint32_t rank, AllReduceGroup& group, BufferPool& pool) -> Result<void> {
        if (rank == 1) return poll_for_ever(group);
        if (rank == 2) return ok();
        const Buffer values = pool.acquire(2 * kPairElements * sizeof(float));
        TAUT_TRY(const auto pair, group.begin_pair(Rank(1), values));
        return group.wait(pair);
      });
  CHECK_THAT(errors[0], Catch::Contains("has not sent elements"));
  CHECK_THAT(errors[1], Catch::Contains("is not connected to it to answer"));
}
