#include "worker/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

using taut::Clock;
using taut::data::sequential_sampler;
using taut::data::Share;
using taut::data::shuffled_sampler;

namespace {

/// The first `count` records that a sampler draws.
std::vector<std::uint64_t> draw(const taut::data::Sampler& sampler, std::size_t count) {
  std::vector<std::uint64_t> records;
  for (Clock clock; records.size() < count; clock = clock.next()) {
    for (std::uint32_t i = 0; i < sampler.batch() && records.size() < count; ++i) {
      records.push_back(sampler.index(clock, i));
    }
  }
  return records;
}

std::vector<std::uint64_t> draw(std::uint64_t records, Share share, std::uint64_t seed,
                                std::size_t count) {
  return draw(*shuffled_sampler(records, share, 16, seed).value(), count);
}

std::string error_of(const taut::Result<std::unique_ptr<taut::data::Sampler>>& sampler) {
  REQUIRE_FALSE(sampler.has_value());
  CHECK(sampler.error().code == taut::ErrorCode::kInvalid);
  return sampler.error().message;
}

}  // namespace

TEST_CASE("a pass draws each record of the share once, for any number of records", "[sampler]") {
  for (const std::uint64_t records :
       {1U, 2U, 3U, 4U, 5U, 16U, 17U, 63U, 64U, 65U, 1000U, 4096U, 4097U}) {
    INFO(records << " records");
    const auto drawn = draw(records, Share{}, 5, 3 * records);
    for (std::size_t pass = 0; pass < 3; ++pass) {
      const auto first = drawn.begin() + static_cast<std::ptrdiff_t>(pass * records);
      const std::set<std::uint64_t> seen(first, first + static_cast<std::ptrdiff_t>(records));
      CHECK(seen.size() == records);
      CHECK(*seen.rbegin() == records - 1);
    }
  }
}

TEST_CASE("the shares are disjoint and cover all records", "[sampler]") {
  for (const std::uint32_t slots : {1U, 2U, 3U, 7U}) {
    std::vector<int> times(1000, 0);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      const std::size_t size = (1000 - slot + slots - 1) / slots;
      for (const std::uint64_t record : draw(1000, {slot, slots}, 9, size)) {
        CHECK(record % slots == slot);
        ++times[record];
      }
    }
    CHECK(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
  }
}

TEST_CASE("the parts of a share's batches are the batches", "[sampler]") {
  const auto whole = shuffled_sampler(100, {.slot = 1, .slots = 3}, 6, 4).value();
  for (const std::uint32_t parts : {2U, 3U}) {
    const std::uint32_t size = 6 / parts;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const Share share{.slot = 1, .slots = 3, .part = part, .parts = parts};
      const auto own = shuffled_sampler(100, share, size, 4).value();
      // Six batches of six are more than the share's 33 records: a pass ends within a batch.
      for (Clock clock; clock < Clock(7); clock = clock.next()) {
        for (std::uint32_t i = 0; i < size; ++i) {
          REQUIRE(own->index(clock, i) == whole->index(clock, part * size + i));
        }
      }
    }
  }
}

TEST_CASE("a batch is the same however it is shared, and a pass has each record once",
          "[sampler]") {
  const auto whole = shuffled_sampler(100, {}, 12, 4).value();
  std::vector<int> times(100, 0);
  for (Clock clock; clock < Clock(25); clock = clock.next()) {
    // Another share of the first worker at each clock.
    const auto split = static_cast<std::uint32_t>(1 + clock.value() % 11);
    const auto a = shuffled_sampler(100, {.total = 12, .first = 0}, split, 4).value();
    const auto b = shuffled_sampler(100, {.total = 12, .first = split}, 12 - split, 4).value();
    for (std::uint32_t i = 0; i < 12; ++i) {
      const std::uint64_t record = i < split ? a->index(clock, i) : b->index(clock, i - split);
      REQUIRE(record == whole->index(clock, i));
      ++times[record];
    }
  }
  // 25 batches of 12 are 3 passes.
  CHECK(std::ranges::count(times, 3) == 100);
}

TEST_CASE("passes, seeds and slots have different orders", "[sampler]") {
  const auto drawn = draw(1000, Share{}, 1, 2000);
  const std::vector<std::uint64_t> first(drawn.begin(), drawn.begin() + 1000);
  const std::vector<std::uint64_t> second(drawn.begin() + 1000, drawn.end());
  CHECK(first != second);
  CHECK(draw(1000, Share{}, 2, 1000) != first);
  auto even = draw(1000, {0, 2}, 1, 500);
  auto odd = draw(1000, {1, 2}, 1, 500);
  for (std::uint64_t& record : odd) record -= 1;
  CHECK(even != odd);
}

TEST_CASE("an order looks shuffled", "[sampler]") {
  // Ranks of 10,000 records in a random order: the correlation of place and record has a standard
  // deviation of 0.01, and 100 records stay in place with a negligible probability.
  const std::size_t count = 10000;
  const auto drawn = draw(count, Share{}, 3, count);
  double product = 0;
  std::size_t in_place = 0;
  const double middle = (static_cast<double>(count) - 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    product += (static_cast<double>(i) - middle) * (static_cast<double>(drawn[i]) - middle);
    in_place += drawn[i] == i ? 1 : 0;
  }
  const double n = static_cast<double>(count);
  CHECK(std::abs(product / (n * (n * n - 1) / 12)) < 0.05);
  CHECK(in_place < 100);
}

TEST_CASE("any clock is drawn without those before it", "[sampler]") {
  const auto forward = shuffled_sampler(777, {1, 3}, 10, 4).value();
  const auto backward = shuffled_sampler(777, {1, 3}, 10, 4).value();
  const auto drawn = draw(*forward, 1000);
  for (std::int64_t clock = 99; clock >= 0; --clock) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      CHECK(backward->index(Clock(clock), i) == drawn[static_cast<std::size_t>(clock) * 10 + i]);
    }
  }
}

TEST_CASE("the test phase draws the records in their order, again and again", "[sampler]") {
  const auto sampler = sequential_sampler(5, 3).value();
  CHECK(draw(*sampler, 11) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0});
}

TEST_CASE("an empty share is reported", "[sampler]") {
  CHECK(error_of(shuffled_sampler(10, Share{}, 0, 1)) == "the batch must be at least 1, is 0");
  CHECK(error_of(sequential_sampler(0, 1)) ==
        "the data set has 0 records; 1 to 4611686018427387904 can be drawn from");
  CHECK(error_of(shuffled_sampler(10, {2, 2}, 1, 1)) == "slot 2 of 2 slots: slots count from 0");
  CHECK(error_of(shuffled_sampler(3, {3, 4}, 1, 1)) ==
        "slot 3 of 4 has no records: the data set has 3; use fewer workers");
}

TEST_CASE("an order is that of the Python package's sampler", "[sampler]") {
  // As tests/e2e/training/test_sampler.py has it, where clocks count from 1.
  const auto sampler = shuffled_sampler(1000, {.slot = 1, .slots = 3}, 8, 9).value();
  const auto drawn = [&](Clock clock) {
    std::vector<std::uint64_t> records;
    for (std::uint32_t i = 0; i < 8; ++i) records.push_back(sampler->index(clock, i));
    return records;
  };
  CHECK(drawn(Clock(0)) == std::vector<std::uint64_t>{46, 373, 34, 787, 877, 871, 937, 892});
  CHECK(drawn(Clock(41)) == std::vector<std::uint64_t>{670, 733, 334, 214, 109, 337, 220, 64});
}
