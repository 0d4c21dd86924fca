#include <string>

#include "tests/unit/collective/toy_group.hpp"

using namespace taut;
using namespace taut::collective;
using namespace taut::test;

TEST_CASE("every rank ends with the same bits, whatever the order of arrival and what is repeated",
          "[collective]") {
  const auto seed = GENERATE(range(0U, 60U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::uint32_t ranks = 1 + pick(random, 9);
  const std::uint64_t count = pick(random, 4) == 0 ? pick(random, 3) : pick(random, 300);
  const std::uint64_t chunk = 1 + pick(random, 80);
  const std::vector<std::uint32_t> hosts = random_hosts(ranks, random);
  const auto values = random_values(ranks, count, random);
  for (const Algorithm algorithm : kAlgorithms) {
    CAPTURE(to_string(algorithm), ranks, count, chunk, hosts);
    ToyGroup in_order(algorithm, hosts, chunk, values);
    in_order.start();
    in_order.run_in_steps();
    ToyGroup disorder(algorithm, hosts, chunk, values);
    disorder.start();
    disorder.run_in_disorder(random);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      CHECK(in_order.ranks[rank]->is_done());
      CHECK(disorder.ranks[rank]->is_done());
      CHECK(in_order.bits_of(rank) == in_order.bits_of(0));
      CHECK(disorder.bits_of(rank) == in_order.bits_of(0));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const auto& of_rank : values) sum += of_rank[i];
      CHECK(in_order.buffers[0].floats()[i] == Approx(sum).margin(1e-5));
    }
  }
}

TEST_CASE("a message that is repeated is counted, and changes nothing", "[collective]") {
  ToyGroup group(Algorithm::kRing, separate_hosts(3), 4, {{1, 2, 3}, {10, 20, 30}, {5, 5, 5}});
  group.start();
  const ToyGroup::Sent first = group.under_way.front();
  group.deliver(first);
  group.deliver(first);
  CHECK(group.ranks[first.what.to.value()]->repeated() == 1);
  group.run_in_steps();
  for (const Buffer& buffer : group.buffers) {
    CHECK(std::ranges::equal(buffer.floats(), std::vector<float>{16, 27, 38}));
  }
}

TEST_CASE("a ring adds each part from the rank of its number on", "[collective]") {
  // Chosen so that the order of the additions shows.
  const std::vector<std::vector<float>> values{
      {1.0F, 1.0F, 1.0F}, {1e8F, 1e8F, 1e8F}, {-1e8F, -1e8F, -1e8F}};
  ToyGroup group(Algorithm::kRing, separate_hosts(3), 1, values);
  group.start();
  group.run_in_steps();
  // (1 + 1e8) - 1e8, (1e8 - 1e8) + 1, (-1e8 + 1) + 1e8: the middle one alone keeps the 1.
  CHECK(std::ranges::equal(group.buffers[1].floats(), std::vector<float>{0.0F, 1.0F, 0.0F}));
}

TEST_CASE("a message that does not fit is refused with one line, and the sum continues",
          "[collective]") {
  ToyGroup group(Algorithm::kRing, separate_hosts(3), 2,
                 std::vector(3, std::vector<float>(9, 1.0F)));
  group.start();
  // Rank 1 receives from rank 0 part 0, elements [0, 3), in messages of at most two.
  const Chunk good = group.under_way.front().what.chunk;
  REQUIRE(good.offset == 0);
  REQUIRE(good.count == 2);
  const auto error_of = [&](Rank from, const Chunk& chunk) {
    const auto out = group.ranks[1]->receive(from, chunk, TimePoint());
    REQUIRE(!out.has_value());
    return out.error();
  };
  const auto changed = [&](auto change) {
    Chunk chunk = good;
    change(chunk);
    return chunk;
  };

  const Error other_total = error_of(Rank(0), changed([](Chunk& chunk) { chunk.total = 10; }));
  CHECK(other_total.code == ErrorCode::kMismatch);
  CHECK(other_total.message ==
        "rank 0 sums 10 elements and this one 9: every rank must sum the same values in the same "
        "order");
  CHECK(error_of(Rank(2), good).message ==
        "rank 2 sent 2 elements from 0 on as a partial sum, which this rank does not receive from "
        "it");
  CHECK(error_of(Rank(77), good).code == ErrorCode::kInvalid);
  CHECK(error_of(Rank(0), changed([](Chunk& chunk) { chunk.offset = 1; })).code ==
        ErrorCode::kInvalid);
  CHECK(error_of(Rank(0), changed([](Chunk& chunk) { chunk.offset = ~std::uint64_t{0}; })).code ==
        ErrorCode::kInvalid);
  CHECK(error_of(Rank(0), changed([](Chunk& chunk) { chunk.count = ~std::uint64_t{0}; })).code ==
        ErrorCode::kInvalid);
  // The sum of part 1 is complete at rank 0: it comes as the sum, never as a part of it.
  CHECK(error_of(Rank(0), changed([](Chunk& chunk) { chunk.offset = 3; })).code ==
        ErrorCode::kInvalid);
  const Error cut = error_of(Rank(0), changed([](Chunk& chunk) {
                               chunk.payload = chunk.payload.part(0, chunk.payload.size() - 1);
                             }));
  CHECK(cut.message == "rank 0 announced 2 elements and sent 7 bytes");

  group.run_in_steps();
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(group.ranks[rank]->is_done());
    CHECK(std::ranges::all_of(group.buffers[rank].floats(), [](float sum) { return sum == 3; }));
  }
}

TEST_CASE("a sum that does not end names what is missing, from which rank and since when",
          "[collective]") {
  ToyGroup group(Algorithm::kRing, separate_hosts(3), 2,
                 std::vector(3, std::vector<float>(9, 1.0F)));
  group.start();
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  const auto missing = group.ranks[1]->waits_for(at(5));
  REQUIRE(missing.has_value());
  CHECK(missing->from == Rank(0));
  CHECK(missing->range == Range{0, 2});
  CHECK(missing->silence == std::chrono::seconds(5));
  CHECK(to_string(missing->phase, missing->range) == "elements [0, 2) as a partial sum");

  const ToyGroup::Sent first = group.under_way.front();
  group.deliver(first, at(6));
  const auto next = group.ranks[1]->waits_for(at(7));
  REQUIRE(next.has_value());
  CHECK(next->range == Range{2, 3});
  CHECK(next->silence == std::chrono::seconds(1));

  group.run_in_steps();
  CHECK(!group.ranks[1]->waits_for(at(8)).has_value());
}

TEST_CASE("values that are summed are free for others once no message shares them",
          "[collective]") {
  ToyGroup group(Algorithm::kHalving, separate_hosts(4), 3, std::vector(4, std::vector<float>(8)));
  group.start();
  CHECK(!group.buffers[0].unshared());
  group.run_in_steps();
  group.ranks.clear();
  CHECK(group.buffers[0].unshared());
}
